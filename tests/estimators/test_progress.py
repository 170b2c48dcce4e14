"""Progress: callbacks of scikit-learn, log messages, and the estimate of the time that remains."""

from __future__ import annotations

import copy
import logging
import math
import pickle
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lincode.estimators.progress import HAS_CALLBACKS, RemainingTime
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import lincode
from lincode import ASCNN, SAANN, SCNN, SCNNCV, EnergyMonitor, Iteration, MiniBatchSCNN, Sparsenet
from lincode.exceptions import InvalidInputError

needs_callbacks = pytest.mark.skipif(
    not HAS_CALLBACKS, reason="scikit-learn has callbacks since version 1.9"
)
NETWORKS = {
    "SCNN": SCNN(6, random_state=0, tol=1e-3),
    "stages": SCNN(6, random_state=0, tol=1e-3, init_size=60),
    "paper": SCNN(6, random_state=0, tol=1e-2, solver="paper"),
    "MiniBatchSCNN": MiniBatchSCNN(6, random_state=0, batch_size=200),
    "online": MiniBatchSCNN(6, random_state=0, batch_size=200, encoder_weight=0),
    "SAANN": SAANN(6, random_state=0, max_iter=3),
    "ASCNN": ASCNN(6, random_state=0, max_iter=3),
    "Sparsenet": Sparsenet(6, random_state=0, max_iter=3),
}


class Recorder:
    """A callback that records the tasks, and may stop or fail."""

    def __init__(self, fail_in: str = "", stop_after: int | None = None) -> None:
        self.fail_in, self.stop_after = fail_in, stop_after
        self.events: list[tuple[str, str, tuple[int, ...]]] = []
        self.values: list[Any] = []
        self.fitted: Any = None

    def _record(self, hook: str, context: Any) -> None:
        path, parent = [], context
        while parent is not None:
            path.append(parent.task_id)
            parent = parent.parent
        self.events.append((hook, context.task_name, tuple(path[::-1])))
        if hook == self.fail_in:
            raise RuntimeError(f"failure in {hook}")

    def setup(self, estimator: Any, context: Any) -> None:
        self._record("setup", context)

    def teardown(self, estimator: Any, context: Any) -> None:
        self._record("teardown", context)

    def on_fit_task_begin(self, estimator: Any, context: Any, *, X: Any = None) -> None:
        assert X is not None
        self._record("begin", context)

    def on_fit_task_end(
        self,
        estimator: Any,
        context: Any,
        *,
        X: Any = None,
        metadata: Any = None,
        fitted_estimator: Any = None,
    ) -> bool:
        self._record("end", context)
        if context.task_name == "iteration":
            self.values.append(metadata)
        if context.parent is None:
            self.fitted = fitted_estimator
        return self.stop_after is not None and len(self.values) >= self.stop_after

    def tasks(self, hook: str, name: str) -> list[tuple[int, ...]]:
        return [path for event, task, path in self.events if (event, task) == (hook, name)]


def same(a: Any, b: Any) -> bool:
    """Whether two fitted estimators have equal attributes."""
    if set(vars(a)) != set(vars(b)):
        return False
    return all(
        np.array_equal(x, vars(b)[name])
        for name, x in vars(a).items()
        if isinstance(x, np.ndarray | float | str)
    )


def test_older_versions_of_scikit_learn_have_no_set_callbacks() -> None:
    assert hasattr(SCNN(), "set_callbacks") == HAS_CALLBACKS


@needs_callbacks
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_iteration_is_a_task_and_changes_nothing(name: str, digits: Any) -> None:
    recorder = Recorder()
    plain = clone(NETWORKS[name]).fit(digits)
    network = clone(NETWORKS[name]).set_callbacks(recorder).fit(digits)
    assert recorder.events[0][0] == "setup"
    assert recorder.events[-1] == ("teardown", "fit", (0,))
    open_tasks: list[tuple[int, ...]] = []
    for hook, _, path in recorder.events[1:-1]:
        if hook == "begin":
            assert not open_tasks or path[:-1] == open_tasks[-1], "a task begins in its parent"
            open_tasks.append(path)
        else:
            assert open_tasks.pop() == path, "a task ends before another one of its parent begins"
    assert not open_tasks
    n_iterations = len(recorder.tasks("end", "iteration"))
    n_steps = getattr(network, "n_steps_", network.n_iter_)
    assert n_iterations >= n_steps if name in ("stages", "ASCNN") else n_iterations == n_steps
    n_stages = len(recorder.tasks("end", "stage"))
    assert n_stages == (2 if name in ("stages", "ASCNN") else 0)
    # The last energy of SCNN is that after the final steps.
    energies = [values["energy"] for values in recorder.values][-n_steps:]
    expected = network.energy_path_[-n_steps:]
    np.testing.assert_allclose(energies[:-1], expected[:-1])
    assert energies[-1] >= expected[-1] * (1 - 1e-12)
    network.set_callbacks()
    assert same(network, plain)
    assert_array_equal(recorder.fitted.transform(digits), plain.transform(digits))


@needs_callbacks
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_callback_can_stop_training(name: str, digits: Any) -> None:
    recorder = Recorder(stop_after=2)
    network = clone(NETWORKS[name]).set_callbacks(recorder).fit(digits)
    assert len(recorder.values) == 2
    assert network.stop_reason_.startswith("the callback requested a stop")
    assert np.isfinite(network.transform(digits)).all()


@needs_callbacks
@pytest.mark.parametrize("name", ["stages", "MiniBatchSCNN", "ASCNN"])
@pytest.mark.parametrize("hook", ["setup", "begin", "end", "teardown"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fitted_model_survives_a_callback_that_fails(name: str, hook: str, digits: Any) -> None:
    network = clone(NETWORKS[name]).fit(digits)
    recorder = Recorder(hook)
    network.set_callbacks(recorder)
    before = copy.copy(network)
    with pytest.raises(RuntimeError, match=f"failure in {hook}"):
        network.fit(digits[::-1])
    assert same(network, before)
    assert recorder.events[-1][0] == "teardown", "callbacks are finished after a failure"


@needs_callbacks
def test_callbacks_are_finished_if_training_fails(digits: Any) -> None:
    recorder = Recorder()

    def fail(iteration: Iteration) -> None:
        raise KeyboardInterrupt

    network = SCNN(6, random_state=0, callback=fail).set_callbacks(recorder)
    before = set(vars(network))
    with pytest.raises(KeyboardInterrupt):
        network.fit(digits)
    assert recorder.events[-1][0] == "teardown"
    assert len(recorder.tasks("end", "iteration")) == 1, "the iteration has ended"
    assert set(vars(network)) == before


@pytest.mark.parametrize("value", [np.array([]), np.array([True, False]), pd.NA])
def test_a_callback_returns_a_truth_value(digits: Any, value: Any) -> None:
    with pytest.raises(InvalidInputError, match="callback must return True to stop training"):
        SCNN(6, random_state=0, callback=lambda iteration: value).fit(digits)


@pytest.mark.parametrize("value", [True, np.True_, np.array([True]), 1])
def test_a_callback_can_stop_with_any_true_value(digits: Any, value: Any) -> None:
    network = SCNN(6, random_state=0, callback=lambda iteration: value).fit(digits)
    assert network.n_iter_ == 1


@needs_callbacks
def test_callbacks_are_no_parameters(digits: Any, tmp_path: Path) -> None:
    monitor = EnergyMonitor()
    network = SCNN(6, random_state=0, tol=1e-3).set_callbacks(monitor)
    assert network.get_params() == SCNN(6, random_state=0, tol=1e-3).get_params()
    assert clone(network).get_params() == network.get_params()
    network.fit(digits)
    loaded = pickle.loads(pickle.dumps(network))
    assert_array_equal(loaded.transform(digits), network.transform(digits))
    lincode.save(network, tmp_path / "model.skops")
    loaded = lincode.load(tmp_path / "model.skops")
    assert_array_equal(loaded.transform(digits), network.transform(digits))
    assert not [name for name in vars(loaded) if "callback" in name and name != "callback"]


@needs_callbacks
def test_streams_of_batches_are_recorded(digits: Any) -> None:
    monitor = EnergyMonitor()
    network = MiniBatchSCNN(6, random_state=0).set_callbacks(monitor)
    network.fit_batches(iter([digits[:300], digits[300:]]))
    assert [record["energy"] for record in monitor.records_] == network.energy_path_.tolist()
    assert [record["n_samples"] for record in monitor.records_] == [300, 300]


@needs_callbacks
def test_cross_validation_reports_folds_and_the_final_fit(digits: Any) -> None:
    monitor, recorder = EnergyMonitor(), Recorder()
    search = SCNNCV(SCNN(6, random_state=0), alphas=["mean", "0.5*mean"], cv=2, criterion="energy")
    search.set_callbacks(monitor, recorder).fit(digits)
    assert len(recorder.tasks("end", "fold")) == 2
    assert len(recorder.tasks("end", "final fit")) == 1
    assert len(monitor.records_) == search.best_estimator_.n_iter_
    assert {record["estimator"] for record in monitor.records_} == {"SCNN"}


@needs_callbacks
def test_networks_in_a_cross_validation_have_no_callbacks(digits: Any) -> None:
    recorder = Recorder()
    network = MiniBatchSCNN(6, random_state=0).set_callbacks(recorder)
    SCNNCV(network, alphas=["mean", "0.5*mean"], cv=2, criterion="energy").fit(digits)
    assert len(recorder.tasks("end", "fit")) == 1, "only the final fit is reported"


@needs_callbacks
@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_energies_of_a_search_are_recorded(digits: Any, n_jobs: int) -> None:
    y = np.arange(len(digits)) % 2
    monitor = EnergyMonitor()
    model = make_pipeline(SCNN(6, random_state=0), LogisticRegression(max_iter=1000))
    search = GridSearchCV(model, {"scnn__alpha": ["mean", "0.5*mean"]}, cv=2, n_jobs=n_jobs)
    search.set_callbacks(monitor).fit(digits, y)
    fits: dict[tuple[int, ...], list[float]] = {}
    for record in monitor.records_:
        fits.setdefault(tuple(record["path"][:-1]), []).append(record["energy"])
    assert len(fits) == 5
    final = search.best_estimator_["scnn"].energy_path_
    np.testing.assert_allclose(list(fits.values())[-1][:-1], final[1:-1])
    assert not monitor.__dict__["_folder"]


@needs_callbacks
def test_fits_in_threads_share_a_monitor(
    digits: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monitor, both_started = EnergyMonitor(), threading.Barrier(2)
    first_finished = threading.Event()

    def wait_for_others(iteration: Iteration) -> None:
        if iteration.n_iter == 1:
            both_started.wait(timeout=60)
        if iteration.n_iter == 3:  # only the second fit has a third iteration
            assert first_finished.wait(timeout=60)

    def fit(max_iter: int) -> None:
        SAANN(6, random_state=0, max_iter=max_iter, callback=wait_for_others).set_callbacks(
            monitor
        ).fit(digits)
        if max_iter == 2:
            first_finished.set()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fit, [2, 4]))
    assert [record["iteration"] for record in monitor.records_] == [1, 1, 2, 2, 3, 4]
    assert not list(tmp_path.iterdir()), "no temporary folders are left"
    assert len(pickle.loads(pickle.dumps(monitor)).records_) == 6
    SAANN(6, random_state=0, max_iter=2).set_callbacks(monitor).fit(digits)
    assert len(monitor.records_) == 2, "a later fit starts again"


@needs_callbacks
def test_the_progress_bar_of_scikit_learn_shows_a_network(digits: Any, capsys: Any) -> None:
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    pipeline = make_pipeline(SCNN(6, random_state=0, tol=1e-2), LogisticRegression(max_iter=1000))
    pipeline.set_callbacks(ProgressBar()).fit(digits, np.arange(len(digits)) % 2)
    assert "SCNN - fit" in capsys.readouterr().out


# Messages


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("lincode")
    yield logger
    logger.setLevel(logging.NOTSET)
    for handler in list(logger.handlers):
        logger.removeHandler(handler)


def test_messages_are_printed_if_logging_is_not_configured(
    digits: Any, capsys: Any, logger: logging.Logger
) -> None:
    SCNN(6, random_state=0, verbose=1, tol=1e-2).fit(digits)
    captured = capsys.readouterr()
    assert captured.out.startswith("[SCNN] start: 600 samples, 64 features\n[SCNN] iteration 1/200")
    assert captured.err == ""
    assert not logger.handlers


def test_messages_go_to_configured_handlers(
    digits: Any, capsys: Any, caplog: Any, logger: logging.Logger
) -> None:
    with caplog.at_level(logging.INFO):  # the root logger
        network = SCNN(6, random_state=0, verbose=1, tol=1e-2).fit(digits)
    assert len(caplog.records) == 1 + network.n_iter_
    assert {(record.name, record.levelname) for record in caplog.records} == {("lincode", "INFO")}
    logger.setLevel(logging.WARNING)  # the user does not want messages
    SCNN(6, random_state=0, verbose=1, tol=1e-2).fit(digits)
    assert capsys.readouterr().out == ""


def test_messages_without_verbose_have_the_level_debug(digits: Any, caplog: Any) -> None:
    with caplog.at_level(logging.INFO, logger="lincode"):
        MiniBatchSCNN(6, random_state=0).fit(digits)
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, logger="lincode"):
        network = MiniBatchSCNN(6, random_state=0).fit(digits)
    assert len(caplog.records) == network.n_steps_
    assert caplog.records[0].levelname == "DEBUG"


# The time that remains


def texts(changes: list[float], tol: float | None, max_iter: int = 100) -> list[str]:
    """Return the estimates for iterations of two seconds each."""
    remaining = RemainingTime(tol)
    iterations = [
        Iteration(i, max_iter, 1.0, change, 2.0 * i) for i, change in enumerate(changes, 1)
    ]
    return [remaining.after(iteration) for iteration in iterations]


def test_a_geometric_convergence_is_extrapolated_exactly() -> None:
    changes = [0.1 / 2**i for i in range(12)]
    estimates = texts(changes, tol=1e-4)
    n_iterations = math.ceil(math.log2(0.1 / 1e-4)) + 1  # 11
    assert estimates[0] == ""
    assert estimates[1] == ", at most 3 min left"  # 98 iterations of two seconds
    for i in range(2, n_iterations - 1):
        assert estimates[i] == f", about {2 * (n_iterations - 1 - i)} s left"
    assert estimates[n_iterations - 1] == "", "training has converged"


def test_max_iter_is_an_upper_bound_of_the_time() -> None:
    assert texts([0.1] * 5, tol=1e-4, max_iter=10)[-1] == ", at most 10 s left"
    assert texts([0.1] * 5, tol=None, max_iter=10)[-1] == ", at most 10 s left"
    assert texts([0.1] * 5, tol=0.0, max_iter=10)[-1] == ", about 10 s left"
    assert texts([0.0] * 5, tol=1e-4, max_iter=10)[-1] == ", at most 10 s left"
    assert texts([0.1] * 5, tol=1e-4, max_iter=5)[-1] == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.01, "less than 1 s"), (2, "about 2 s"), (240, "about 4 min"), (9000, "about 2.5 h")],
)
def test_durations_have_a_suitable_unit(seconds: float, text: str) -> None:
    remaining = RemainingTime(0.0)
    for i in (1, 2):
        estimate = remaining.after(Iteration(i, 3, 1.0, 0.1, seconds * i))
    assert estimate == f", {text} left"


def test_a_new_stage_starts_a_new_estimate() -> None:
    remaining = RemainingTime(0.0)
    for i in (1, 2, 3):
        remaining.after(Iteration(i, 10, 1.0, 0.1, 100.0 * i))
    assert remaining.after(Iteration(1, 10, 1.0, 0.1, 301.0)) == ""
    assert remaining.after(Iteration(2, 10, 1.0, 0.1, 303.0)) == ", about 16 s left"


def test_verbose_shows_elapsed_and_remaining_time(digits: Any, capsys: Any) -> None:
    slow = lambda iteration: __import__("time").sleep(0.02)  # noqa: E731
    SAANN(6, random_state=0, max_iter=100, verbose=1, callback=slow).fit(digits[:50])
    second = capsys.readouterr().out.splitlines()[1]
    assert second.startswith("[SAANN] iteration 2/100  energy per sample ")
    assert second.endswith(" s left")
