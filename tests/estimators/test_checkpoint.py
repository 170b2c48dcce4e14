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

from lincode import SCNN, MiniBatchSCNN

N, P, M = 3000, 30, 24
NAMES = {"SCNN": SCNN, "MiniBatchSCNN": MiniBatchSCNN}
FIT: dict[str, dict[str, Any]] = {
    "scnn": {"name": "SCNN", "max_iter": 60, "tol": 0.0},
    "scnn, plain": {"name": "SCNN", "max_iter": 40, "tol": 0.0, "encoder_weight": 0.0},
    "batches": {"name": "MiniBatchSCNN", "batch_size": 100, "max_iter": 5},
    "batches, plain": {
        "name": "MiniBatchSCNN",
        "batch_size": 50,
        "max_iter": 5,
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
    return cls(M, random_state=0, n_jobs=1, **options | parameters)


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
