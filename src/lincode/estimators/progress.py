"""The progress of ``fit``: log messages, the callback of the user, callbacks of scikit-learn.

scikit-learn has callbacks since version 1.9. They are experimental, and only this file uses them.
With older versions there is no method ``set_callbacks``, and everything else works.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lincode.estimators.logs import is_logged, log_progress
from lincode.exceptions import InvalidInputError
from lincode.networks.training import Iteration

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9
    HAS_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing, because this version of scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method, because this version of scikit-learn has no callbacks."""
        return method
else:
    HAS_CALLBACKS = True

T = TypeVar("T")
RECENT_SECONDS, RECENT_CHANGES = 5, 8
"""The numbers of iterations from which the duration and the convergence are extrapolated."""


class FitProgress:
    """The progress of one call of ``fit``.

    ``begin`` and ``end`` are called before and after each iteration. A stage, such as the training
    on a subset of the samples, begins where iterations are counted from 1 again.

    Parameters
    ----------
    estimator : estimator
        The estimator that is fitted, with the parameters ``verbose`` and ``callback``.
    context : CallbackContext, default=None
        The context of ``fit`` for callbacks of scikit-learn.
    n_stages : int, default=1
        The largest number of stages.
    tol : float, default=None
        The change at which training ends. None means that ``max_iter`` iterations are an upper
        bound, and 0 that all of them are made.
    data : dict, default=None
        X and y for callbacks of scikit-learn.
    """

    def __init__(
        self,
        estimator: Any,
        context: Any = None,
        *,
        n_stages: int = 1,
        tol: float | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.context = context
        self.n_stages = n_stages
        self.remaining = RemainingTime(tol)
        self.data = data or {}
        self.stage: Any = None
        self.task: Any = None
        self.max_iter: int | None = None
        self.stop_requested = False

    def begin(self, n_iter: int) -> None:
        """Report that iteration ``n_iter`` begins."""
        if self.context is None:
            return
        if self.n_stages > 1 and (n_iter == 1 or self.stage is None):
            self._end_stage()
            self.stage = self.context.subcontext(task_name="stage", max_subtasks=self.max_iter)
            self.stage.call_on_fit_task_begin(estimator=self.estimator, **self.data)
        parent = self.context if self.stage is None else self.stage
        self.task = parent.subcontext(task_name="iteration")
        self.task.call_on_fit_task_begin(estimator=self.estimator, **self.data)

    def end(self, iteration: Iteration, *, before: str = "", after: str = "") -> bool:
        """Report an iteration; return whether a callback requests a stop.

        ``before`` and ``after`` are parts of the message. Iterations on a subset of the
        samples, which ``before`` names, say nothing about the time that remains.
        """
        estimator = self.estimator
        verbose = estimator.verbose
        left = self.remaining.after(iteration)
        if is_logged(verbose):
            left = "" if before else left
            name = type(estimator).__name__
            log_progress(f"[{name}] {before}{iteration}{left}{after}", verbose)
        stop = False
        if self.task is not None:
            values = {
                "energy": iteration.energy_per_sample,
                "change": iteration.change,
                "n_samples": iteration.n_samples,
                "seconds": iteration.seconds,
            }
            task, self.task = self.task, None
            stop = bool(
                task.call_on_fit_task_end(estimator=estimator, metadata=values, **self.data)
            )
        # The task has ended, also if the user's callback raises.
        if estimator.callback is not None:
            stop |= _is_stop(estimator.callback(iteration))
        return stop or self.stop_requested

    @contextmanager
    def subtask(self, name: str, sub_estimator: Any = None) -> Iterator[None]:
        """Report one part of ``fit``, in which a sub-estimator may be fitted."""
        if self.context is None:
            yield
            return
        context = self.context.subcontext(task_name=name)
        if sub_estimator is None:
            context.call_on_fit_task_begin(estimator=self.estimator, **self.data)
            yield
            context.call_on_fit_task_end(estimator=self.estimator, **self.data)
            return
        with context.propagate_callback_context(sub_estimator):
            context.call_on_fit_task_begin(estimator=self.estimator, **self.data)
            yield
            context.call_on_fit_task_end(estimator=self.estimator, **self.data)

    def finish(self) -> None:
        """Report that ``fit`` is finished."""
        if self.context is not None:
            self._end_stage()
            self.context.call_on_fit_task_end(
                estimator=self.estimator, reconstruction_attributes={}, **self.data
            )

    def _end_stage(self) -> None:
        if self.stage is not None:
            stage, self.stage = self.stage, None
            stop = stage.call_on_fit_task_end(estimator=self.estimator, **self.data)
            self.stop_requested |= bool(stop)


def _is_stop(value: Any) -> bool:
    """Return what a callback has returned as a bool, where None means False."""
    try:
        if isinstance(value, np.ndarray) and value.size != 1:
            raise ValueError("It is an array.")
        return bool(value)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            "callback must return True to stop training, and otherwise False or None, got"
            f" {type(value).__name__} {value!r:.40}."
        ) from error


class ProgressMixin(CallbackSupportMixin):
    """An estimator that reports the progress of ``fit``."""

    @with_callbacks  # type: ignore[untyped-decorator]
    def _with_progress(
        self,
        train: Callable[[FitProgress], T],
        *,
        max_iter: int | None,
        n_stages: int = 1,
        tol: float | None = None,
        X: Any = None,
        y: Any = None,
    ) -> T:
        """Return the result of a function that is called with the progress of this fit.

        It is called inside of ``unchanged_on_failure``, because the callbacks must be finished
        before attributes are restored. ``max_iter`` is None if it is not known.
        """
        context, data = None, {"X": X, "y": y}
        if HAS_CALLBACKS:
            n_subtasks = n_stages if n_stages > 1 else max_iter
            context = self._init_callback_context(max_subtasks=n_subtasks)
            context.call_on_fit_task_begin(estimator=self, **data)
        progress = FitProgress(self, context, n_stages=n_stages, tol=tol, data=data)
        progress.max_iter = max_iter
        result = train(progress)
        progress.finish()
        return result


def without_callbacks(estimator: Any) -> Any:
    """Remove the callbacks of scikit-learn from an estimator, and return it."""
    return estimator.set_callbacks() if HAS_CALLBACKS else estimator


class RemainingTime:
    """An estimate of the time until training stops, from the iterations so far.

    The logarithm of the change is extrapolated by a straight line to ``tol``.
    """

    def __init__(self, tol: float | None) -> None:
        self.tol = tol
        self.seconds: list[float] = []
        self.changes: list[float] = []

    def after(self, iteration: Iteration) -> str:
        """Return a text such as ", about 3 s left", which is empty at the end."""
        if iteration.n_iter == 1:
            self.seconds, self.changes = [], []
        self.seconds.append(iteration.seconds)
        self.changes.append(iteration.change)
        if iteration.max_iter is None:
            return ""
        n_left = iteration.max_iter - iteration.n_iter
        is_done = self.tol is not None and 0 < iteration.change <= self.tol
        if n_left <= 0 or is_done or len(self.seconds) < 2:
            return ""
        recent = self.seconds[-RECENT_SECONDS:]
        per_iteration = (recent[-1] - recent[0]) / (len(recent) - 1)
        n_converged = self._iterations_to_convergence()
        word = "about" if n_converged < n_left or self.tol == 0 else "at most"
        duration = _duration(min(n_left, n_converged) * per_iteration)
        return f", {duration} left" if duration.startswith("less") else f", {word} {duration} left"

    def _iterations_to_convergence(self) -> float:
        recent = self.changes[-RECENT_CHANGES:]
        if not self.tol or len(recent) < 3 or min(recent) <= 0:
            return math.inf
        logs = np.log(recent)
        slope = float(np.polyfit(np.arange(len(logs)), logs, 1)[0])
        return math.ceil((logs[-1] - math.log(self.tol)) / -slope) if slope < 0 else math.inf


def _duration(seconds: float) -> str:
    """Return a duration in a suitable unit."""
    if seconds < 1:
        return "less than 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class EnergyMonitor:
    """A callback of scikit-learn 1.9 or later that records the energy of every iteration.

    Set it with ``set_callbacks`` on a network, or on a pipeline or a search that contains
    networks. It also records what happens in the processes of ``n_jobs``. Older versions of
    scikit-learn have no ``set_callbacks``; use the parameter ``callback`` there.

    Parameters
    ----------
    max_propagation_depth : int, default=None
        The number of levels of nested estimators whose networks are recorded. None means all.

    Attributes
    ----------
    records_ : list of dict
        One entry for each iteration of each network: "estimator" (the name of the class), "path"
        (the numbers of the tasks from the outermost ``fit`` to this iteration), "iteration",
        "energy" (per sample), "change", "n_samples" and "seconds". ``pandas.DataFrame`` accepts it.
        It is complete when the outermost ``fit`` has finished, and then contains this fit only.
        If several fits run at the same time in threads, it contains all of them, and it is complete
        when the last one has finished.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SCNN, EnergyMonitor
    >>> monitor = EnergyMonitor()
    >>> scnn = SCNN(n_components=16, random_state=0)
    >>> if hasattr(scnn, "set_callbacks"):
    ...     scnn = scnn.set_callbacks(monitor).fit(load_digits().data / 16)
    ...     assert monitor.records_[-1]["energy"] == scnn.energy_
    """

    def __init__(self, max_propagation_depth: int | None = None) -> None:
        self.max_propagation_depth = max_propagation_depth
        self.records_: list[dict[str, Any]] = []
        self._process = os.getpid()
        self._folder: str | None = None
        self._n_active = 0
        self._lock = threading.Lock()

    def setup(self, estimator: Any, context: Any) -> None:
        """Start to record the outermost ``fit``, or one more if others are running."""
        with self._lock:
            self._n_active += 1
            if self._n_active == 1:
                self.records_ = []
                self._process = os.getpid()
                self._folder = tempfile.mkdtemp(prefix="lincode-")

    def teardown(self, estimator: Any, context: Any) -> None:
        """Collect what other processes have recorded, if no other fit is running."""
        with self._lock:
            self._n_active -= 1
            if self._n_active == 0:
                self._collect()

    def _collect(self) -> None:
        if self._folder is None:
            return
        for file in sorted(Path(self._folder).iterdir()):
            self.records_ += [json.loads(line) for line in file.read_text().splitlines()]
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None
        self.records_.sort(key=lambda record: record["path"])

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def on_fit_task_end(self, estimator: Any, context: Any, *, metadata: Any = None) -> None:
        """Record the energy of an iteration."""
        if not metadata or "energy" not in metadata:
            return
        path, parent = [], context
        while parent is not None:
            path.append(int(parent.task_id))
            parent = parent.parent
        record = {
            "estimator": context.estimator_name,
            "path": path[::-1],
            "iteration": context.task_id + 1,
            **metadata,
        }
        if os.getpid() == self._process:
            self.records_.append(record)
        elif self._folder is not None:
            with open(Path(self._folder, str(os.getpid())), "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self) | {"records_": list(self.records_), "_n_active": 0}
        del state["_lock"]  # Locks cannot be pickled.
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()
