"""What the experiments measure: features at one scale, thresholds by share of zeros, holes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

from lincode import soft_threshold
from lincode.experiments import digit_grid, linear_codes, missing_pixels, mnist_noise, networks
from lincode.experiments.experiment import Record, Run
from lincode.experiments.registry import EXPERIMENTS, MEASURES
from lincode.experiments.samples import Samples, Split


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_features_are_brought_to_one_scale(form: type, rng: np.random.Generator) -> None:
    A = rng.standard_normal((200, 5)) * [1, 10, 0.01, 0, 3]
    B = linear_codes.scaled(form(A), linear_codes.scales(form(A)))
    B = B.toarray() if hasattr(B, "toarray") else B
    assert_allclose(np.square(B).mean(axis=0), [0.2, 0.2, 0.2, 0, 0.2])
    assert_allclose(np.square(B).sum(axis=1).mean(), 0.8)


def test_codes_are_thresholded_as_in_the_paper_or_split(rng: np.random.Generator) -> None:
    Z = rng.standard_normal((7, 3))
    plain = linear_codes.coded(Z, 0.3, "plain").toarray()
    assert_array_equal(plain, soft_threshold(Z, 0.3))
    split = linear_codes.coded(Z, 0.3, "split").toarray()
    assert split.shape == (7, 6)
    assert (split >= 0).all()
    assert_allclose(split[:, :3] - split[:, 3:], plain)


SHARES = [0.95, 0.2, 0.6]


def labelled(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(0, 3, n)
    return np.eye(3)[y] * 3 + 1.5 * rng.standard_normal((n, 3)), y


def test_the_test_set_has_no_say_in_threshold_and_c(rng: np.random.Generator) -> None:
    sets = [labelled(rng, n) for n in (90, 60, 60)]
    Z, y = [z for z, _ in sets], [y for _, y in sets]
    data = Split(Z[0], Z[1], Z[2], y[0], y[1], y[2])
    found = linear_codes.classify(Z, data, "plain", SHARES, [0.1, 10.0])
    garbled = replace(data, y_test=rng.permutation(y[2]))
    other = linear_codes.classify(Z, garbled, "plain", SHARES, [0.1, 10.0])
    assert found["test_error"] < other["test_error"]
    for name in ("zeros", "C", "threshold", "val_error"):
        assert found[name] == other[name]
    assert np.shape(found["val_errors"]) == (3, 2)
    assert len(np.unique(np.min(found["val_errors"], axis=1))) > 1, "a choice to make"
    assert found["val_error"] == np.min(found["val_errors"])
    share = (linear_codes.coded(Z[0], found["threshold"], "plain").toarray() == 0).mean()
    assert share == pytest.approx(found["zeros"], abs=0.02)


def test_holes_are_a_share_of_each_patch_and_fixed_by_the_seed(rng: np.random.Generator) -> None:
    X = rng.standard_normal((30, 64)) + 5
    for level in missing_pixels.LEVELS:
        Y = missing_pixels.with_holes(X, level, [0])
        assert_array_equal((Y == 0).sum(axis=1), round(64 * level))
        assert_array_equal(Y[Y != 0], X[Y != 0])
        assert_array_equal(Y, missing_pixels.with_holes(X, level, [0]))
    assert (
        missing_pixels.with_holes(X, 0.5, [0, 1]) != missing_pixels.with_holes(X, 0.5, [0, 0])
    ).any()


def test_noise_has_the_deviation_it_says_in_every_set() -> None:
    zeros = [np.zeros((200, 100), np.float32) for _ in range(3)]
    data = mnist_noise.noisy(Split(*zeros), 0.06, 0)
    for X in (data.train, data.val, data.test):
        assert X.std() == pytest.approx(0.06, rel=0.03)
        assert X.dtype == np.float32
    assert (data.val != data.test).any()


def test_lams_are_the_papers() -> None:
    lams = networks.paper_lams("SCNN", 40)
    assert (lams[0], lams[-1], len(lams)) == (0.01, 1.0, 40)
    assert_allclose(np.diff(lams), 0.99 / 39, atol=1e-5)
    assert networks.paper_lams("Sparsenet", 40)[-1] == 20.0


def a_record(val: list[float], test: list[float]) -> Record:
    run = Run("digits-components", "paper", 0, False, {"network": "SCNN", "m": 25})
    return Record(run, {"val_accuracy": val, "test_accuracy": test}, 1.0, {}, {}, "")


def test_lambda_is_chosen_on_validation_digits_the_sparser_of_equals() -> None:
    record = a_record([0.5, 0.8, 0.8, 0.7], [0.9, 0.6, 0.75, 0.95])
    assert digit_grid.chosen_accuracy(record) == 0.75


@pytest.mark.parametrize("network", networks.NETWORKS)
def test_a_grid_of_lambdas_is_measured_column_by_column(network: str) -> None:
    run = digit_grid.grid_run(
        "x", "smoke", 0, True, network=network, m=6, side=28, n=[60, 40, 40], n_lams=2
    )
    found = digit_grid.measure(run, Samples(embedded=True))
    assert all(len(column) == 2 for column in found.values())
    assert all(0 < a <= 1 for a in found["test_accuracy"])
    assert all(s > 0 for s in found["fit_seconds"] + found["encode_seconds"])


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_every_run_can_be_measured_and_has_a_name_of_its_own(scale: str) -> None:
    for x in EXPERIMENTS.values():
        runs = x.runs(scale, 0, False)  # type: ignore[arg-type]
        assert len({run.key for run in runs}) == len(runs)
        assert {run.group for run in runs} <= set(MEASURES)


def test_the_papers_sizes() -> None:
    """Section 4 of the paper, in numbers."""

    def settings(name: str) -> list[dict[str, object]]:
        return [dict(r.settings) for r in EXPERIMENTS[name].runs("paper", 0, False)]

    assert {s["m"] for s in settings("pca")} == {10, 30, 50}
    assert all(s["n"] == 2000 for s in settings("pca"))
    assert len(settings("pca")) == 20 * 3 * 4
    for s in settings("missing-pixels"):
        assert s["n"] == [2000, 2000, 2000]
        assert s["levels"] == [0.1, 0.2, 0.3, 0.4, 0.5]
        assert len(s["lams"]) == 40  # type: ignore[arg-type]
    assert {s["m"] for s in settings("digits-components")} == {25, 50, 75, 100, 125, 150}
    assert all(s["n"] == [500, 500, 500] for s in settings("digits-components"))
    assert all(len(s["lams"]) == 100 for s in settings("accuracy-sparsity"))  # type: ignore[arg-type]
    sides = {s["side"] for s in settings("digits-input-size")}
    assert {14, 28} <= sides
    units = settings("mnist-units")
    assert {s["m"] for s in units} == {400, 800, 1200, 1600}
    assert all(s["n"] == [50_000, 10_000, 10_000] for s in units)
    noisy = [s for s in units if "noise" in s]
    assert all(sum(s["m"] == m for s in noisy) == 10 for m in (400, 800, 1200, 1600))
    assert {s["sigma"] for s in settings("mnist-noise")} == {0.02, 0.04, 0.06, 0.08}


def test_results_that_are_committed_are_of_the_plan() -> None:
    """Records under results/ are runs the code as it is would make."""
    from lincode.experiments.records import Store

    folder = Path(__file__).parents[2] / "results"
    plan = {run for x in EXPERIMENTS.values() for run in x.runs("paper", 0, False)}
    strangers = [record.run.label for record in Store(folder).read() if record.run not in plan]
    assert strangers == []
