"""Checkpoints: training that was killed continues and ends with the same result."""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lincode import SCNN, MiniBatchSCNN, load, save
from lincode.cli import main
from lincode.estimators.batch_training import BatchTraining
from lincode.exceptions import CheckpointError, InvalidInputError
from lincode.networks.scnn import SCNNTraining
from lincode.rows import chunks

N, P, M = 12_000, 30, 24
NAMES = {"SCNN": SCNN, "MiniBatchSCNN": MiniBatchSCNN}
FIT: dict[str, dict[str, Any]] = {
    "scnn": {"name": "SCNN", "max_iter": 40, "tol": 0.0},
    "scnn, plain": {"name": "SCNN", "max_iter": 40, "tol": 0.0, "encoder_weight": 0.0},
    "batches": {"name": "MiniBatchSCNN", "batch_size": 300, "max_iter": 5},
    "batches, plain": {
        "name": "MiniBatchSCNN",
        "batch_size": 100,
        "max_iter": 8,
        "encoder_weight": 0.0,
    },
}
"""Trainings of about a second."""


def samples() -> Any:
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((M, P))
    codes = rng.standard_normal((N, M)) * (rng.random((N, M)) < 0.2)
    return codes @ atoms + 0.1 * rng.standard_normal((N, P))


def estimator(kind: str, **parameters: Any) -> Any:
    options = dict(FIT[kind])
    cls = NAMES[options.pop("name")]
    if cls is MiniBatchSCNN:
        options["max_no_improvement"] = None
    return cls(M, **{"random_state": 0, "n_jobs": 1} | options | parameters)


def fit(kind: str, path: Path, result: Path) -> None:
    """Train with a checkpoint after every iteration, and save the result; run in a process."""
    warnings.simplefilter("ignore")
    model = estimator(kind, checkpoint_path=path, checkpoint_every=0).fit(samples())
    temporary = result.with_suffix(".part.npz")
    np.savez(temporary, D=model.components_, C=model.encoder_, energies=model.energy_path_)
    os.replace(temporary, result)


def fit_and_kill(kind: str, folder: Path, rng: np.random.Generator, max_delay: float) -> int:
    """Kill the process that trains at random moments until it is finished; count the kills."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lincode", __name__])
    result, n_kills = folder / "result.npz", 0
    while not result.exists():
        process = context.Process(target=fit, args=(kind, folder / "checkpoint", result))
        process.start()
        process.join(float(rng.uniform(0.2, max_delay)) if n_kills < 40 else None)
        if process.is_alive():
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            n_kills += 1
        else:
            assert process.exitcode == 0
    return n_kills


@pytest.mark.slow
@pytest.mark.parametrize("kind", FIT)
def test_killed_training_ends_with_the_same_result(kind: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = estimator(kind).fit(samples())
    rng, n_kills, runs = np.random.default_rng(1), 0, 0
    while n_kills < 15:
        runs += 1
        folder = tmp_path / str(runs)
        folder.mkdir()
        n_kills += fit_and_kill(kind, folder, rng, max_delay=1.0)
        with np.load(folder / "result.npz") as result:
            D, C, energies = result["D"], result["C"], result["energies"]
        assert [path.name for path in folder.iterdir()] == ["result.npz"]
        if "batches" in kind:
            np.testing.assert_array_equal(D, expected.components_)
            np.testing.assert_array_equal(C, expected.encoder_)
            np.testing.assert_array_equal(energies, expected.energy_path_)
        else:
            assert (np.diff(energies) <= 0).all()
            np.testing.assert_allclose(energies[-1], expected.energy_, rtol=1e-3)


class TrainingInterruptedError(Exception):
    """Raised by a callback, as if the process had ended."""


def interrupted_fit(kind: str, path: Path, n_iter: int = 5, **parameters: Any) -> None:
    """Leave a checkpoint behind."""

    def interrupt(iteration: Any) -> None:
        if iteration.n_iter == n_iter and iteration.n_samples in (0, N, 300):
            raise TrainingInterruptedError

    options = {"checkpoint_path": path, "checkpoint_every": 0, "callback": interrupt}
    with pytest.raises(TrainingInterruptedError):
        estimator(kind, **options | parameters).fit(samples())
    assert path.is_file()


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkpoint of "batches"."""
    path = tmp_path_factory.mktemp("checkpoints") / "batches"
    interrupted_fit("batches", path)
    return path


def interrupt_in(
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    n_calls: int,
    error: BaseException | None = None,
) -> None:
    """Press Ctrl-C at the end of a method, in the middle of an iteration or a batch.

    Another exception than KeyboardInterrupt may be given.
    """
    method, calls = getattr(owner, name), iter(range(n_calls - 1))

    def interrupted(*arguments: Any, **options: Any) -> Any:
        result = method(*arguments, **options)
        if next(calls, None) is None:
            raise error or KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, name, interrupted)


@pytest.mark.parametrize("iterable", [False, True])
@pytest.mark.parametrize("kind", ["batches", "batches, plain"])
def test_ctrl_c_saves_the_last_complete_batch(
    kind: str,
    iterable: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    X, path = samples()[:2000], tmp_path / "checkpoint"

    def train(model: Any) -> Any:
        return model.fit_batches(np.array_split(X, 10)) if iterable else model.fit(X)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = train(estimator(kind, max_iter=1))
        model, seen = estimator(kind, max_iter=1, checkpoint_path=path), []
        with monkeypatch.context() as patch:
            interrupt_in(patch, BatchTraining, "learn", 4)
            with pytest.raises(KeyboardInterrupt):
                train(model)
        assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]
        model.set_params(callback=lambda iteration: seen.append(iteration.n_iter), verbose=1)
        train(model)
    assert seen[0] == 4
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"[MiniBatchSCNN] continuing from {path} after 3 batches"
    assert lines[1].startswith(f"[MiniBatchSCNN] batch 4{'  ' if iterable else '/'}")
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.encoder_, expected.encoder_)
    np.testing.assert_array_equal(model.energy_path_, expected.energy_path_)


def test_ctrl_c_saves_the_last_complete_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    X, path, seen = samples()[:2000], tmp_path / "checkpoint", []
    model = SCNN(M, random_state=0, n_jobs=1, checkpoint_path=path)
    expected = clone(model).set_params(checkpoint_path=None).fit(X)
    with monkeypatch.context() as patch:
        interrupt_in(patch, SCNNTraining, "update_dictionary", 6)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X)
    assert path.is_file()
    model.set_params(callback=lambda iteration: seen.append(iteration.n_iter), verbose=1).fit(X)
    assert seen[0] > 1
    message = f"[SCNN] continuing from {path} after {seen[0] - 1} iterations"
    assert message in capsys.readouterr().out.splitlines()
    np.testing.assert_allclose(model.energy_path_[: seen[0]], expected.energy_path_[: seen[0]])
    np.testing.assert_allclose(model.energy_, expected.energy_, rtol=1e-3)


@pytest.mark.parametrize(("error", "saved"), [(SystemExit(143), True), (ValueError(), False)])
def test_exit_in_the_handler_of_a_signal_saves_the_last_complete_batch(
    error: BaseException, saved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_in(monkeypatch, BatchTraining, "learn", 3, error)
    with pytest.raises(type(error)):
        estimator("batches", checkpoint_path=tmp_path / "checkpoint").fit(samples()[:2000])
    assert (tmp_path / "checkpoint").exists() == saved


def test_ctrl_c_before_the_first_batch_is_complete_saves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_in(monkeypatch, BatchTraining, "learn", 1)
    with pytest.raises(KeyboardInterrupt):
        estimator("batches", checkpoint_path=tmp_path / "checkpoint").fit(samples()[:2000])
    assert not list(tmp_path.iterdir())


def test_ctrl_c_ends_the_program_if_the_checkpoint_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    interrupt_in(monkeypatch, BatchTraining, "learn", 3)
    model = estimator("batches", checkpoint_path=tmp_path / "checkpoint")
    with (
        pytest.warns(UserWarning, match="could not be written: .* No space left"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(samples()[:2000])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0.1}, "the parameter alpha was 'mean' and is now 0.1"),
        ({"random_state": 1}, "the parameter random_state was 0 and is now 1"),
        ({"init": np.ones((M, P))}, "the parameter init was 'data' and is now 'array of shape"),
    ],
)
def test_other_parameters_are_refused(
    left_behind: Path, parameters: dict[str, Any], message: str
) -> None:
    before = left_behind.read_bytes()
    with pytest.raises(CheckpointError, match=message):
        estimator("batches", checkpoint_path=left_behind, **parameters).fit(samples())
    assert left_behind.read_bytes() == before


def test_parameters_that_do_not_matter_may_change(left_behind: Path, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(left_behind.read_bytes())
    seen: list[int] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator(
            "batches",
            checkpoint_path=path,
            checkpoint_every=3600,
            n_jobs=2,
            callback=lambda iteration: seen.append(iteration.n_iter),
        ).fit(samples())
    assert seen[0] == 5  # the checkpoint was written after the fourth batch
    assert not path.exists()


def test_other_data_are_refused(left_behind: Path) -> None:
    X = samples()
    for other in (X[:-1], X.astype(np.float32), 2 * X, -X, X[::-1], X[:, ::-1]):
        with pytest.raises(CheckpointError, match="the training data: "):
            estimator("batches", checkpoint_path=left_behind).fit(other)
    message = rf"shape was \({N}, {P}\) and is now \({N - 1}, {P}\)"
    with pytest.raises(CheckpointError, match=message):
        estimator("batches", checkpoint_path=left_behind).fit(X[1:])


def test_another_estimator_is_refused(left_behind: Path) -> None:
    with pytest.raises(
        CheckpointError, match="the estimator was 'MiniBatchSCNN' and is now 'SCNN'"
    ):
        estimator("scnn", checkpoint_path=left_behind).fit(samples())


def test_a_fitted_model_survives_a_refused_checkpoint(left_behind: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator("batches", max_iter=1).fit(samples())
    D = model.components_.copy()
    model.set_params(checkpoint_path=left_behind, alpha=0.1)
    with pytest.raises(CheckpointError):
        model.fit(samples())
    np.testing.assert_array_equal(model.components_, D)


@pytest.mark.parametrize("damage", ["truncated", "one bit", "text", "model file"])
def test_damaged_checkpoints_are_refused(left_behind: Path, tmp_path: Path, damage: str) -> None:
    path, data = tmp_path / "checkpoint", left_behind.read_bytes()
    if damage == "truncated":
        path.write_bytes(data[:-100])
    elif damage == "one bit":
        path.write_bytes(data[:-50] + bytes([data[-50] ^ 1]) + data[-49:])
    elif damage == "text":
        path.write_text("This is not a checkpoint.")
    else:
        save(SCNN(2, random_state=0).fit(samples()[:100]), path)
    with pytest.raises(CheckpointError):
        estimator("batches", checkpoint_path=path).fit(samples())


def test_a_full_disk_keeps_the_last_checkpoint_and_training_goes_on(
    left_behind: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(left_behind.read_bytes())

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def check(iteration: Any) -> None:
        assert path.read_bytes() == left_behind.read_bytes()
        assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]

    expected = estimator("batches").fit(samples())
    monkeypatch.setattr(os, "fsync", fail)
    model = estimator("batches", checkpoint_path=path, checkpoint_every=0, callback=check)
    with pytest.warns(UserWarning, match="No space left") as caught:
        model.fit(samples())
    assert len([w for w in caught if "No space left" in str(w.message)]) == 1
    np.testing.assert_array_equal(model.components_, expected.components_)


def test_files_beside_the_checkpoint_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other")
    (tmp_path / ".checkpoint.part").symlink_to(tmp_path / "other")
    path = tmp_path / "checkpoint"
    estimator("batches", max_iter=1, checkpoint_path=path, checkpoint_every=0).fit(samples())
    assert (tmp_path / "other").read_text() == "other"
    assert sorted(os.listdir(tmp_path)) == [".checkpoint.part", "other"]


def test_numbers_of_numpy_are_the_same_parameters(tmp_path: Path) -> None:
    def stop(iteration: Any) -> None:
        if iteration.n_iter == 3:
            raise KeyboardInterrupt

    path, X = tmp_path / "checkpoint", samples()[:2000]
    model = estimator("batches", max_iter=1, checkpoint_path=path, callback=stop)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(alpha=np.float64(0.5), n_components=np.int64(M)).fit(X)
    assert path.exists()
    model.set_params(alpha=0.5, n_components=M, callback=None).fit(X)
    assert not path.exists()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"checkpoint_path": 3}, "checkpoint_path must be None or a path, got 3"),
        ({"checkpoint_path": "missing/folder/file"}, "checkpoint_path must be a file that can be"),
        ({"checkpoint_every": -1}, "checkpoint_every must be"),
    ],
)
@pytest.mark.parametrize("kind", ["scnn", "batches"])
def test_invalid_parameters(kind: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        estimator(kind, **parameters).fit(samples()[:100])


def test_algorithm_of_the_paper_has_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="checkpoint_path must be None with solver='paper'"):
        SCNN(2, solver="paper", checkpoint_path=tmp_path / "c").fit(samples()[:100])


@pytest.mark.parametrize("n_iter", [7, 27])
@pytest.mark.parametrize("kind", ["batches", "batches, plain"])
def test_batches_of_an_iterable_continue(kind: str, n_iter: int, tmp_path: Path) -> None:
    X, path = samples(), tmp_path / "checkpoint"
    batches = np.array_split(X, 20)

    def interrupt(iteration: Any) -> None:
        if iteration.n_iter == n_iter:
            raise TrainingInterruptedError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = estimator(kind, max_iter=2).fit_batches(batches)
        model = estimator(kind, max_iter=2, checkpoint_path=path, checkpoint_every=0)
        with pytest.raises(TrainingInterruptedError):
            model.set_params(callback=interrupt).fit_batches(batches)
        assert path.is_file()
        if n_iter == 7:
            with pytest.raises(CheckpointError, match="the batches ended after 3"):
                model.set_params(callback=None).fit_batches(iter(batches[:3]))
        model.set_params(callback=None).fit_batches(batches)
    assert not path.exists()
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.energy_path_, expected.energy_path_)


def test_fitted_model_does_not_need_the_folder_of_its_checkpoint(tmp_path: Path) -> None:
    X, folder = samples()[:500], tmp_path / "checkpoints"
    folder.mkdir()
    model = SCNN(5, random_state=0, checkpoint_path=folder / "checkpoint").fit(X)
    folder.rmdir()
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").transform(X), model.transform(X))


def test_checkpoint_may_be_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    interrupted_fit("batches", tmp_path / "link")
    assert (tmp_path / "target").is_file()
    assert (tmp_path / "link").is_symlink()


def test_array_that_is_read_in_chunks_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MAPPED_BYTES", 0)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 20_000)
    monkeypatch.setattr(chunks, "BUFFER_BYTES", 200_000)
    X, path = samples(), tmp_path / "checkpoint"
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")

    def interrupt(iteration: Any) -> None:
        if iteration.n_iter == 50:
            raise TrainingInterruptedError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = estimator("batches, plain", max_iter=2).fit(mapped)
        model = estimator("batches, plain", max_iter=2, checkpoint_path=path, checkpoint_every=0)
        with pytest.raises(TrainingInterruptedError):
            model.set_params(callback=interrupt).fit(mapped)
        model.set_params(callback=None).fit(mapped)
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.encoder_, expected.encoder_)


def test_random_state_none_continues_in_the_same_order(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    interrupted_fit("batches", path, random_state=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator("batches", random_state=None, checkpoint_path=path).fit(samples())
    assert len(model.energy_path_) == 5 * 40
    assert not path.exists()


def test_missing_entries_and_weights_continue(tmp_path: Path) -> None:
    X, path = samples()[:2000], tmp_path / "checkpoint"
    rng = np.random.default_rng(2)
    X[rng.random(X.shape) < 0.3] = np.nan
    weights = rng.integers(1, 3, len(X))

    def interrupt(iteration: Any) -> None:
        if iteration.n_iter == 8:
            raise TrainingInterruptedError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = estimator("scnn").fit(X, sample_weight=weights)
        model = estimator("scnn", checkpoint_path=path, checkpoint_every=0)
        with pytest.raises(TrainingInterruptedError):
            model.set_params(callback=interrupt).fit(X, sample_weight=weights)
        model.set_params(callback=None).fit(X, sample_weight=weights)
    assert (np.diff(model.energy_path_) <= 0).all()
    np.testing.assert_allclose(model.energy_, expected.energy_, rtol=1e-3)


def test_command_line_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, path = samples(), tmp_path / "checkpoint"
    np.save(tmp_path / "X.npy", X)
    interrupted_fit("batches", path, n_jobs=None, max_no_improvement=3, max_iter=100)
    command = ["fit", str(tmp_path / "X.npy"), "-m", str(M), "-o", str(tmp_path / "model")]
    assert main([*command, "--batch-size", "300", "--checkpoint-path", str(path)]) == 0
    assert not path.exists()
    assert capsys.readouterr().err.startswith("batch 5/")  # four are in the checkpoint
    model = load(tmp_path / "model")
    assert model.checkpoint_path is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = estimator("batches", max_no_improvement=3, max_iter=100).fit(X)
    np.testing.assert_array_equal(model.components_, expected.components_)
