"""What the experiments measure, and how claims are judged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from paper.experiments import (
    digit_grid,
    digits_components,
    features,
    missing_pixels,
    mnist_noise,
    networks,
)
from paper.experiments.experiment import Record, Run, claim_from_difference
from paper.experiments.records import Store
from paper.experiments.registry import EXPERIMENTS, MEASURES
from paper.experiments.samples import Samples, Split
from scipy.sparse import csr_matrix

from lincode import soft_threshold


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_all_features_get_the_same_scale(form: type, rng: np.random.Generator) -> None:
    A = rng.standard_normal((200, 5)) * [1, 10, 0.01, 0, 3]
    B = features.scaled(form(A), features.scales(form(A)))
    B = B.toarray() if hasattr(B, "toarray") else B
    assert_allclose(np.square(B).mean(axis=0), [0.2, 0.2, 0.2, 0, 0.2])
    assert_allclose(np.square(B).sum(axis=1).mean(), 0.8)


def test_codes_are_thresholded_or_split_into_parts(rng: np.random.Generator) -> None:
    Z = rng.standard_normal((7, 3))
    plain = features.coded(Z, 0.3, "plain").toarray()
    assert_array_equal(plain, soft_threshold(Z, 0.3))
    split = features.coded(Z, 0.3, "split").toarray()
    assert split.shape == (7, 6)
    assert (split >= 0).all()
    assert_allclose(split[:, :3] - split[:, 3:], plain)


ZEROS = [0.95, 0.2, 0.6]


def labelled(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(0, 3, n)
    return np.eye(3)[y] * 3 + 1.5 * rng.standard_normal((n, 3)), y


def test_threshold_and_c_do_not_depend_on_the_test_set(rng: np.random.Generator) -> None:
    sets = [labelled(rng, n) for n in (90, 60, 60)]
    Z, y = [z for z, _ in sets], [y for _, y in sets]
    data = Split(Z[0], Z[1], Z[2], y[0], y[1], y[2])
    found = features.classify(Z, data, "plain", ZEROS, [0.1, 10.0])
    shuffled = replace(data, y_test=rng.permutation(y[2]))
    other = features.classify(Z, shuffled, "plain", ZEROS, [0.1, 10.0])
    assert found["test_error"] < other["test_error"]
    for name in ("zeros", "C", "threshold", "val_error"):
        assert found[name] == other[name]
    assert np.shape(found["val_errors"]) == (3, 2)
    assert len(np.unique(np.min(found["val_errors"], axis=1))) > 1, (
        "otherwise there is no choice to make"
    )
    assert found["val_error"] == np.min(found["val_errors"])
    fraction = (features.coded(Z[0], found["threshold"], "plain").toarray() == 0).mean()
    assert fraction == pytest.approx(found["zeros"], abs=0.02)


def test_missing_pixels_are_a_fraction_of_each_patch(rng: np.random.Generator) -> None:
    X = rng.standard_normal((30, 64)) + 5
    for level in missing_pixels.LEVELS:
        Y = missing_pixels.remove_pixels(X, level, [0])
        assert_array_equal((Y == 0).sum(axis=1), round(64 * level))
        assert_array_equal(Y[Y != 0], X[Y != 0])
        assert_array_equal(Y, missing_pixels.remove_pixels(X, level, [0]))
    assert (
        missing_pixels.remove_pixels(X, 0.5, [0, 1]) != missing_pixels.remove_pixels(X, 0.5, [0, 0])
    ).any()


def test_noise_has_the_given_standard_deviation() -> None:
    zeros = [np.zeros((200, 100), np.float32) for _ in range(3)]
    data = mnist_noise.add_noise(Split(*zeros), 0.06, 0)
    for X in (data.train, data.val, data.test):
        assert X.std() == pytest.approx(0.06, rel=0.03)
        assert X.dtype == np.float32
    assert (data.val != data.test).any()


def test_noise_with_the_given_variance_is_clipped() -> None:
    grey = [np.zeros((200, 100), np.float32) for _ in range(3)]  # 1/2 as a pixel in [0, 1]
    for X in mnist_noise.add_noise(Split(*grey), 0.01, 0, mnist_noise.VARIANCE).arrays():
        assert np.var((X + 1) / 2) == pytest.approx(0.01, rel=0.05)
        assert X.dtype == np.float32
    black = [np.full((200, 100), -1, np.float32) for _ in range(3)]
    for X in mnist_noise.add_noise(Split(*black), 0.08, 0, mnist_noise.VARIANCE).arrays():
        assert -1 == X.min() < X.max() <= 1
        assert np.mean(X == -1) == pytest.approx(0.5, abs=0.02)


def test_lams_are_those_of_the_paper() -> None:
    lams = networks.paper_lams("SCNN", 40)
    assert (lams[0], lams[-1], len(lams)) == (0.01, 1.0, 40)
    assert_allclose(np.diff(lams), 0.99 / 39, atol=1e-5)
    assert networks.paper_lams("Sparsenet", 40)[-1] == 20.0


def a_record(
    val: list[float],
    test: list[float],
    network: str = "SCNN",
    m: int = 25,
    seed: int = 0,
    areas: list[float] | None = None,
) -> Record:
    settings = {"network": network, "m": m, "n": [500, 500, 500]}
    run = Run("digits-components", "paper", seed, False, settings)
    columns = {"val_accuracy": val, "test_accuracy": test, "val_sparsity_area": areas}
    return Record(run, columns, 1.0, {}, {}, "")


def test_lambda_is_chosen_on_validation_digits() -> None:
    record = a_record([0.5, 0.8, 0.8, 0.7], [0.9, 0.6, 0.75, 0.95])
    assert digit_grid.chosen_accuracy(record) == 0.75


def test_minimum_sparsity_area_applies_to_validation_codes() -> None:
    record = a_record([0.9, 0.8, 0.7], [0.5, 0.6, 0.4], areas=[0.3, 0.8, 0.9])
    assert digit_grid.chosen_accuracy(record) == 0.5
    assert digit_grid.chosen_accuracy(record, 0.8) == 0.6
    assert digit_grid.chosen_accuracy(record, 0.85) == 0.4
    assert digit_grid.chosen_accuracy(record, 0.95) is None


def test_networks_are_compared_on_shared_repetitions() -> None:
    whole = [a_record([1.0], [0.8], x, 25, 0) for x in networks.NETWORKS]
    more = a_record([1.0], [0.2], "SCNN", 25, 1)
    alone = a_record([1.0], [0.3], "SCNN", 50, 1)
    assert digit_grid.shared_repetitions([*whole, more, alone], "m") == [*whole, alone]
    found = digit_grid.accuracies([*whole, more, alone], "m")
    assert found.loc["SCNN"].to_dict() == {25: [0.8], 50: [0.3]}
    assert digit_grid.means([*whole, more, alone], "m").loc["SCNN"].to_dict() == {25: 0.8}
    error = digit_grid.standard_error(whole, "m")
    # A repetition that only one network has does not count.
    assert digit_grid.standard_error([*whole, more], "m") == error
    second = [a_record([1.0], [0.8], x, 25, 1) for x in networks.NETWORKS]
    assert digit_grid.standard_error([*whole, *second], "m") == pytest.approx(error / 2**0.5)


def figure_5(
    scnn: float | dict[int, float], sparsenet: float, others: dict[int, float]
) -> list[bool | None]:
    records = []
    for m, other in others.items():
        best = scnn[m] if isinstance(scnn, dict) else scnn
        for x in networks.NETWORKS:
            accuracy = {"SCNN": best, "Sparsenet": sparsenet}.get(x, other)
            records.append(a_record([1.0], [accuracy], x, m))
    return [claim.reproduced for claim in digits_components.claims(records)]


def test_judgement_of_figure_5() -> None:
    assert figure_5(0.88, 0.87, {25: 0.7, 100: 0.8, 150: 0.88}) == [True, True]
    assert figure_5(0.88, 0.87, {25: 0.9, 100: 0.9, 150: 0.85}) == [
        True,
        False,
    ]  # better with few units
    assert figure_5(0.88, 0.87, {25: 0.7, 100: 0.861, 150: 0.8}) == [True, False]
    assert (
        figure_5(0.3, 0.3, {25: 0.1, 100: 0.1, 150: 0.1})[0] is False
    )  # weak dependence, but not high
    assert figure_5({25: 0.8, 100: 0.88, 150: 0.88}, 0.87, {25: 0.7, 100: 0.7, 150: 0.7}) == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("difference", "reproduced", "outcome"),
    [(0.2, True, "reproduced"), (-0.2, False, "not reproduced"), (0.05, None, "inconclusive")],
)
def test_difference_within_the_tolerance_is_inconclusive(
    difference: float, reproduced: bool | None, outcome: str
) -> None:
    claim = claim_from_difference("a > b", "", "", difference, 0.1)
    assert claim.reproduced is reproduced
    assert claim.outcome == outcome
    assert replace(claim, reproduced=None, inconclusive=False).outcome == "not judged"


@pytest.mark.parametrize("network", networks.NETWORKS)
def test_results_have_one_entry_per_lambda(network: str) -> None:
    run = digit_grid.grid_run(
        "x", "smoke", 0, True, network=network, m=6, side=28, n=[60, 40, 40], n_lams=2
    )
    found = digit_grid.measure(run, Samples(embedded=True))
    assert all(len(column) == 2 for column in found.values())
    assert all(0 < a <= 1 for a in found["test_accuracy"])
    assert all(s > 0 for s in found["fit_seconds"] + found["encode_seconds"])


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_every_run_has_a_measure_and_a_unique_key(scale: str) -> None:
    for x in EXPERIMENTS.values():
        runs = x.runs(scale, 0, False)  # type: ignore[arg-type]
        assert len({run.key for run in runs}) == len(runs)
        assert {run.group for run in runs} <= set(MEASURES)


def test_sizes_are_those_of_section_4_of_the_paper() -> None:

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


RESULTS = Path(__file__).parents[2] / "paper" / "results"


@pytest.mark.skipif(not RESULTS.exists(), reason="the results are not part of the sdist")
def test_committed_records_are_planned_runs() -> None:
    """The keys of the runs must not change, or the records would no longer be found."""
    plan = {run for x in EXPERIMENTS.values() for run in x.runs("paper", 0, False)}
    records = Store(RESULTS).read()
    assert len(records) == 361
    assert [record.run.label for record in records if record.run not in plan] == []
    assert all(Store(RESULTS).has(record.run) for record in records)
