"""The only training loop: it owns iterating, stopping, callbacks and what must never happen."""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol


class Reason(enum.Enum):
    """Why training ended, as a sentence."""

    CONVERGED = (
        "converged: the last iteration changed the energy (with solver='paper', the"
        " reconstruction error) by at most tol"
    )
    MAX_ITER = "max_iter was reached before convergence; raise max_iter or tol"
    CALLBACK = "the callback asked to stop"


class EnergyRoseError(RuntimeError):
    """A step raised the energy it is meant to lower: a bug in lincode, never in the data."""


@dataclass(frozen=True)
class Iteration:
    """What a callback is told after each outer iteration (of batches: each pass).

    Attributes
    ----------
    n_iter, max_iter : int
    energy_per_sample : float
        The energy divided by the number of samples; ``energy_`` is the sum.
    change : float
        Relative change of the energy by this iteration (with ``solver="paper"``, of the network's
        reconstruction error); where there is a ``tol``, training ends when it is at most that.
    seconds : float
        Since the first iteration began; of ASCNN, the first of its stage.

    Examples
    --------
    Stop after a minute and keep what was learned:

    >>> from lincode import SCNN
    >>> scnn = SCNN(n_components=20, callback=lambda now: now.seconds > 60)
    """

    n_iter: int
    max_iter: int
    energy_per_sample: float
    change: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"iteration {self.n_iter}/{self.max_iter}"
            f"  energy per sample {self.energy_per_sample:.6g}"
            f"  change {self.change:.1e}  {self.seconds:.1f} s"
        )


Callback = Callable[[Iteration], object]


@dataclass(frozen=True)
class Outcome:
    """How training went."""

    energy_path: list[float]
    """The energy at the start and after each outer iteration"""
    n_iter: int
    reason: Reason


class Training(Protocol):
    """A network in training, as the loop sees it."""

    @property
    def n(self) -> float:
        """Number of samples"""

    @property
    def monotone(self) -> bool:
        """Whether no step may raise the energy; not so where steps see a part of the rows"""

    def energy(self) -> float:
        """The energy now."""

    def rounding(self) -> float:
        """How far rounding alone can move the energy."""

    def watched(self, energy: float) -> float:
        """The error whose relative change ends training; the energy, if it is the energy."""

    def steps(self) -> Iterator[str]:
        """One outer iteration: do each step, then yield its name."""

    def closing_steps(self) -> Iterator[str]:
        """What is left to do after the last iteration; does each, then yields its name."""

    def note_change(self, change: float) -> bool:
        """Be told the relative change; whether steps are solved well enough to end on it."""


def alternate(
    training: Training, *, max_iter: int, tol: float, callback: Callback | None = None
) -> Outcome:
    """Iterate until the watched error changes by at most ``tol``, or ``max_iter``.

    The energy is looked at after every step that is kept; of a monotone training it never rises.
    """
    began = time.perf_counter()
    path = [training.energy()]
    watched = training.watched(path[0])
    reason = Reason.MAX_ITER
    for n_iter in range(1, max_iter + 1):
        path.append(_energy_after(training, training.steps(), path[-1]))
        before, watched = watched, training.watched(path[-1])
        change = abs(before - watched) / before if before > 0 else 0.0
        well_solved = training.note_change(change)
        seconds = time.perf_counter() - began
        now = Iteration(n_iter, max_iter, path[-1] / training.n, change, seconds)
        if callback is not None and callback(now):
            reason = Reason.CALLBACK
            break
        if change <= tol and well_solved:
            reason = Reason.CONVERGED
            break
    path[-1] = _energy_after(training, training.closing_steps(), path[-1])
    return Outcome(path, n_iter, reason)


def _energy_after(training: Training, steps: Iterator[str], energy: float) -> float:
    """The energy after the steps, none of which may raise it if the training is monotone."""
    for step in steps:
        before, energy = energy, training.energy()
        if not math.isfinite(energy):
            raise FloatingPointError(
                f"the {step} step made the energy {energy}; X must be of moderate scale, and alpha"
                " (and learning_rate, where there is one) of a size that suits it."
            )
        if not training.monotone:
            continue
        if energy > before and energy > before + training.rounding():
            raise EnergyRoseError(
                f"the {step} step raised the energy from {before!r} to {energy!r}, which must"
                " never happen whatever the data; please report it with data and parameters."
            )
        energy = min(before, energy)  # a rise within rounding is no rise
    return energy
