"""The training loop of all networks: iterations, stopping rules, callbacks and safety checks."""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from lincode.exceptions import EnergyIncreaseError, InvalidInputError


class Reason(enum.Enum):
    """The reason why training stopped, as a sentence."""

    CONVERGED = "converged: the relative change of the energy fell to tol or below"
    MAX_ITER = "max_iter was reached before convergence; increase max_iter or tol"
    CALLBACK = "the callback requested a stop"


@dataclass(frozen=True)
class Iteration:
    """The state of training that is passed to callbacks.

    Attributes
    ----------
    n_iter : int
        The number of iterations done: outer iterations of SCNN, batches of MiniBatchSCNN, passes
        over the samples of the other networks.
    max_iter : int or None
        The largest number of iterations. None means that it is not known, as in the first pass of
        ``MiniBatchSCNN.fit_batches``.
    energy_per_sample : float
        The energy of the samples in use, divided by their number.
    change : float
        The relative change of the energy in this iteration (with ``solver="paper"``, of the
        reconstruction error). SCNN stops when it is at most ``tol``.
    seconds : float
        The time since the first iteration started. For ASCNN, since the stage started.
    n_samples : int
        The number of samples in use. SCNN starts on subsets of the samples if there are many (see
        its ``init_size``), and counts the iterations on each subset from 1.
    unit : str
        What is counted: "iteration", or "batch" for MiniBatchSCNN.

    Examples
    --------
    Stop after one minute and keep what was learned:

    >>> from lincode import SCNN
    >>> scnn = SCNN(n_components=20, callback=lambda iteration: iteration.seconds > 60)
    """

    n_iter: int
    max_iter: int | None
    energy_per_sample: float
    change: float
    seconds: float
    n_samples: int = 0
    unit: str = "iteration"

    def __str__(self) -> str:
        total = "" if self.max_iter is None else f"/{self.max_iter}"
        return (
            f"{self.unit} {self.n_iter}{total}"
            f"  energy per sample {self.energy_per_sample:.6g}"
            f"  change {self.change:.1e}  {self.seconds:.1f} s"
        )


Callback = Callable[[Iteration], object]


@dataclass(frozen=True)
class Outcome:
    """The course of training."""

    energy_path: list[float]
    """The energy at the start and after each iteration"""
    n_iter: int
    reason: Reason


class Training(Protocol):
    """A network in training, with the methods that ``train`` calls."""

    @property
    def n(self) -> float:
        """The number of samples."""

    @property
    def monotone(self) -> bool:
        """Whether no step may increase the energy."""

    def energy(self) -> float:
        """Return the present energy."""

    def rounding(self) -> float:
        """Return a bound of the rounding error of the energy."""

    def monitored_error(self, energy: float) -> float:
        """Return the error whose relative change is compared with ``tol``."""

    def steps(self) -> Iterator[str]:
        """Do one iteration, and yield the name of each step after it is done."""

    def final_steps(self) -> Iterator[str]:
        """Do the steps that follow the last iteration, and yield the name of each."""

    def set_change(self, change: float) -> bool:
        """Receive the relative change; return whether the steps were accurate enough to stop."""


def train(
    training: Training,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    on_begin: Callable[[int], None] | None = None,
    started: float | None = None,
    earlier: Sequence[float] = (),
    on_continue: Callable[[list[float]], None] | None = None,
) -> Outcome:
    """Iterate until the relative change is at most ``tol``, or ``max_iter`` is reached.

    The energy is checked after every step. If the training is monotone, a step that increases the
    energy by more than rounding raises an error. ``on_begin`` is called with the number of each
    iteration before it, and ``callback`` with its result after it. ``started`` is the time from
    which the seconds of an iteration are counted, if it is not now. ``earlier`` are the energies at
    the start and after each iteration that was done before, if training continues. They count as
    iterations.
    ``on_continue`` is called with all energies before each further iteration.
    """
    start = time.perf_counter() if started is None else started
    path = list(earlier) or [_finite(training.energy(), "at the start")]
    error = training.monitored_error(path[-1])
    reason = Reason.MAX_ITER
    n_iter = len(path) - 1
    for n_iter in range(len(path), max_iter + 1):
        if on_begin is not None:
            on_begin(n_iter)
        path.append(_run_steps(training, training.steps(), path[-1]))
        previous, error = error, training.monitored_error(path[-1])
        change = abs(previous - error) / previous if previous > 0 else 0.0
        accurate = training.set_change(change)
        seconds = time.perf_counter() - start
        n = training.n
        iteration = Iteration(n_iter, max_iter, path[-1] / n, change, seconds, round(n))
        if callback is not None and callback(iteration):
            reason = Reason.CALLBACK
            break
        if change <= tol and accurate:
            reason = Reason.CONVERGED
            break
        if on_continue is not None and n_iter < max_iter:
            on_continue(path)
    path[-1] = _run_steps(training, training.final_steps(), path[-1])
    return Outcome(path, n_iter, reason)


def _run_steps(training: Training, steps: Iterator[str], energy: float) -> float:
    """Run the steps and return the energy after them."""
    for step in steps:
        before, energy = energy, _finite(training.energy(), f"after the {step} step")
        if not training.monotone:
            continue
        if energy > before and energy > before + training.rounding():
            raise EnergyIncreaseError(
                f"the {step} step increased the energy from {before!r} to {energy!r}. This is a"
                " bug in lincode; please report it with the data and the parameters."
            )
        energy = min(before, energy)  # an increase within rounding is ignored
    return energy


def _finite(energy: float, when: str) -> float:
    """Return the energy, and raise an error if it is not finite."""
    if not math.isfinite(energy):
        raise InvalidInputError(
            f"the energy is {energy} {when}; scale X to moderate values, and choose alpha (and"
            " learning_rate, if there is one) to match."
        )
    return energy
