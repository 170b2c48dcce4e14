"""The training loop: iterations, stopping rules, callbacks and safety checks."""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from lincode.exceptions import EnergyIncreaseError, InvalidInputError

try:  # since scikit-learn 1.9
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks

    HAS_CALLBACKS = True
except ImportError:
    HAS_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing, because this version of scikit-learn has no callbacks."""

    def _with_callbacks(method: Any) -> Any:
        return method


Method = TypeVar("Method", bound=Callable[..., Any])


def with_callbacks(method: Method) -> Method:
    """Let callbacks of scikit-learn finish when a method ends; see ``Progress``."""
    return cast(Method, _with_callbacks(method))


class Reason(enum.Enum):
    """The reason why training stopped, as a sentence."""

    CONVERGED = "converged: the relative decrease of the energy fell to tol or below"
    MAX_ITER = "max_iter was reached before convergence; increase max_iter or tol"
    CALLBACK = "the callback requested a stop"


@dataclass(frozen=True)
class Iteration:
    """The state of training that is passed to callbacks.

    Attributes
    ----------
    n_iter : int
        The number of iterations done: outer iterations of SCNN, batches of MiniBatchSCNN, or steps
        of the refinement.
    max_iter : int
        The largest number of iterations.
    energy_per_sample : float
        The energy of the samples in use, divided by their number; NaN in the refinement.
    change : float
        The relative decrease of the energy. SCNN stops when it is at most ``tol``.
    seconds : float
        The time since training started.
    n_samples : int
        The number of samples in use. With ``refine=False``, SCNN starts on subsets of the samples
        if there are many, and counts the iterations on each subset from 1. For batches, and in the
        refinement, it is the number of samples so far; repeated ones count.
    snapshot : callable
        ``snapshot()`` returns a fitted copy of the estimator with the weights so far.
    stage : {"iterations", "batches", "refinement"}
        What is counted.
    encoder_r2 : float
        In the refinement, the fraction of held-out samples that the best network so far
        reconstructs. NaN before it.

    Examples
    --------
    Stop after one minute and keep what was learned:

    >>> from lincode import SCNN
    >>> scnn = SCNN(n_components=20, callback=lambda iteration: iteration.seconds > 60)
    """

    n_iter: int
    max_iter: int
    energy_per_sample: float
    change: float
    seconds: float
    n_samples: int
    snapshot: Callable[[], Any] = field(repr=False)
    stage: str = "iterations"
    encoder_r2: float = math.nan

    def __str__(self) -> str:
        text = f"{self.n_samples} samples"
        if self.stage == "refinement":
            return f"refinement, {text}: {self.encoder_r2:.2%} reconstructed, {self.seconds:.1f} s"
        if self.stage == "iterations":
            text += f", iteration {self.n_iter} of at most {self.max_iter}"
        return (
            f"{text}: energy per sample {self.energy_per_sample:.6g},"
            f" change {self.change:.1e}, {self.seconds:.1f} s"
        )


class Progress:
    """What follows one call of ``fit``: ``verbose``, ``callback``, and scikit-learn's callbacks.

    Parameters
    ----------
    estimator : estimator
        It has the parameters ``verbose`` and ``callback``, and the method ``_snapshot``.
    max_iter : int, default=None
        The largest number of iterations of all stages together. None means that callbacks of
        scikit-learn are not called.
    X, y : array-like
        The samples, for callbacks of scikit-learn.
    """

    def __init__(
        self, estimator: Any, max_iter: int | None = None, X: Any = None, y: Any = None
    ) -> None:
        self.estimator, self.data = estimator, {"X": X, "y": y}
        self.started = time.perf_counter()
        self.context: Any = None
        self.task: Any = None
        if HAS_CALLBACKS and max_iter is not None:
            self.context = estimator._init_callback_context(max_subtasks=max_iter)
            self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def begin(self) -> None:
        """Report that an iteration begins."""
        if self.context is not None:
            self.task = self.context.subcontext(task_name="iteration")
            self.task.call_on_fit_task_begin(estimator=self.estimator, **self.data)

    def end(self, training: Any, **values: Any) -> bool:
        """Report an iteration; return whether a callback requests a stop.

        ``values`` are the other fields of ``Iteration``.
        """
        estimator, stop = self.estimator, False
        values["seconds"] = time.perf_counter() - self.started
        iteration = Iteration(**values, snapshot=partial(estimator._snapshot, training))
        if self.task is not None:
            values["energy"] = iteration.energy_per_sample
            stop = bool(
                self.task.call_on_fit_task_end(estimator=estimator, metadata=values, **self.data)
            )
        return self.show(iteration) or stop

    def show(self, iteration: Iteration) -> bool:
        """Print a line if the estimator is verbose; return whether ``callback`` requests a stop."""
        estimator = self.estimator
        if estimator.verbose:
            print(f"[{type(estimator).__name__}] {iteration}", flush=True)
        return estimator.callback is not None and bool(estimator.callback(iteration))

    def finish(self) -> None:
        """Report that ``fit`` is finished."""
        if self.context is not None:
            self.context.call_on_fit_task_end(
                estimator=self.estimator, reconstruction_attributes={}, **self.data
            )


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

    def energy(self) -> float:
        """Return the present energy."""

    def zero_energy(self) -> float:
        """Return the energy of zero codes."""

    def rounding(self) -> float:
        """Return a bound of the rounding error of the energy."""

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
    progress: Progress | None = None,
) -> Outcome:
    """Iterate until the relative decrease of the energy is at most ``tol``, or ``max_iter`` times.

    The decrease is relative to the energy, or to its decrease since all codes were zero if that is
    less: most of the energy of sparse rows may be out of the reach of any code. Training does not
    stop while the decrease grows.

    The energy is checked after every step. A step that increases it by more than rounding raises an
    error.
    """
    path = [_finite(training.energy(), "at the start")]
    reason, decrease = Reason.MAX_ITER, math.inf
    for n_iter in range(1, max_iter + 1):
        if progress is not None:
            progress.begin()
        path.append(_run_steps(training, training.steps(), path[-1]))
        before, decrease = decrease, abs(path[-2] - path[-1])
        scale = min(path[-2], max(training.zero_energy() - path[-1], 0.0))
        change = decrease / scale if scale > 0 else float(decrease > 0)
        accurate = training.set_change(change)
        if progress is not None and progress.end(
            training,
            n_iter=n_iter,
            max_iter=max_iter,
            energy_per_sample=path[-1] / training.n,
            change=change,
            n_samples=round(training.n),
        ):
            reason = Reason.CALLBACK
            break
        if change <= tol and decrease <= before and accurate:
            reason = Reason.CONVERGED
            break
    path[-1] = _run_steps(training, training.final_steps(), path[-1])
    return Outcome(path, n_iter, reason)


def _run_steps(training: Training, steps: Iterator[str], energy: float) -> float:
    """Run the steps and return the energy after them."""
    for step in steps:
        before, energy = energy, _finite(training.energy(), f"after the {step} step")
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
            f"the energy is {energy} {when}; scale X to moderate values, and choose alpha to match."
        )
    return energy
