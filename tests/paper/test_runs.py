"""The runs of the experiments, and what the runs of the digit figures measure."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from paper.experiments import digit_accuracies, digit_grid, features, missing_pixels, networks
from paper.experiments.experiment import Record, Run
from paper.experiments.predictions import decode_wrong
from paper.experiments.records import Store
from paper.experiments.registry import EXPERIMENTS, MEASURES
from paper.experiments.samples import Samples


@pytest.mark.parametrize("network", digit_grid.VARIANTS)
def test_results_have_one_entry_per_lambda(network: str) -> None:
    run, *_ = digit_grid.grid_runs(
        "smoke",
        0,
        True,
        network=network,
        m=6,
        side=28,
        n=[60, 40, 40],
        n_lams=2,
    )
    found = digit_grid.measure(run, Samples(embedded=True))
    parameters = dict(found).pop("parameters")
    n_lams = 1 if network in networks.BASELINES else 2
    assert all(len(found[name]) == n_lams for name in found if name != "parameters")
    assert all(0 < a <= 1 for a in found["test_accuracy"])
    assert all(s >= 0 for s in found["fit_seconds"])
    for k in range(n_lams):
        wrong = decode_wrong(found["test_wrong"][k], 40)
        assert 1 - wrong.mean() == pytest.approx(found["test_accuracy"][k])
        assert len(found["test_predictions"][k]) == 40
    estimator = digit_grid.build_for(run, 0.1)
    assert set(estimator.get_params()) - {"alpha"} == set(parameters[type(estimator).__name__])
    assert parameters["SVC"]["kernel"] == "linear"


def test_the_lambdas_of_a_wider_grid_are_joined_in_ascending_order() -> None:
    """The best λ may be in either run, and is at an end only if no other λ is beyond it."""
    sizes: dict[str, Any] = {
        "network": "SAANN",
        "m": 6,
        "side": 28,
        "n": [60, 40, 40],
        "n_lams": 13,
    }
    first, wider = digit_grid.grid_runs("smoke", 0, True, **sizes)
    other, _ = digit_grid.grid_runs("smoke", 1, True, **sizes)
    assert first.key != wider.key
    assert "wider" in wider.label

    def record(run: Run) -> Record:
        # The accuracy is largest for λ = 1, the last of the first run.
        accuracy = [1 / (1 + abs(lam - 1)) for lam in run.settings["lams"]]
        return Record(run, {"val_accuracy": accuracy, "test_accuracy": accuracy}, 1.0, {}, {}, "")

    assert digit_accuracies.at_end_of_grid(record(first))
    (joined,) = digit_accuracies.with_all_lams([record(wider), record(other), record(first)])
    assert joined["lams"] == sorted([*first.settings["lams"], *wider.settings["lams"]])
    assert joined["lams"][0] == 0
    assert_allclose(joined["val_accuracy"], [1 / (1 + abs(lam - 1)) for lam in joined["lams"]])
    assert joined["lams"][digit_accuracies.chosen(joined)] == 1
    assert not digit_accuracies.at_end_of_grid(joined)
    assert joined.run.seed == 0, "the wider grid of the other sample is missing"


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
    assert len([s for s in settings("pca") if "passes" not in str(s["method"])]) == 20 * 3 * 4
    for s in settings("missing-pixels"):
        assert s["n"] == [2000, 2000, 2000]
        assert s["levels"] == [0.1, 0.2, 0.3, 0.4, 0.5]
        assert s["lams"] == missing_pixels.LAMS[str(s["network"])]
    assert {s["m"] for s in settings("digits-components")} == {25, 50, 75, 100, 125, 150}
    assert all(s["n"] == [500, 500, 500] for s in settings("digits-components"))
    sides = {s["side"] for s in settings("digits-input-size")}
    assert {14, 28} <= sides
    units = settings("mnist-units")
    assert {s["m"] for s in units} == {400, 800, 1200, 1600}
    assert all(s["n"] == [50_000, 10_000, 10_000] for s in units)
    plain = [s for s in units if s.get("zeros") == {"plain": [0.82, 0.88, 0.92]}]
    for m in (400, 800, 1200, 1600):
        lams = {s["lam"] for s in plain if s["m"] == m and "encoder_ridge" not in s}
        assert len(lams) == (11 if m == 1200 else 10)
    assert {s["sigma"] for s in settings("mnist-noise")} == {0.02, 0.04, 0.06, 0.08}


RESULTS = Path(__file__).parents[2] / "paper" / "results"


@pytest.mark.skipif(not RESULTS.exists(), reason="the results are not part of the sdist")
def test_committed_records_are_planned_runs() -> None:
    """The keys of the runs must not change, or the records would no longer be found."""
    plan = {run for x in EXPERIMENTS.values() for run in x.runs("paper", 0, False)}
    records = Store(RESULTS).read()
    assert [record.run.label for record in records if record.run not in plan] == []
    assert all(Store(RESULTS).has(record.run) for record in records)


def test_common_scale_keeps_the_relative_scales_of_features(rng: np.random.Generator) -> None:
    A = rng.standard_normal((50, 3)) * [1, 10, 0.1]
    B = features.scaled(A, features.common_scale(A))
    assert_allclose(np.square(B).sum(axis=1).mean(), 1)
    assert_allclose(B / B[0, 0], A / A[0, 0])
    assert_array_equal(features.common_scale(np.zeros((4, 2))), 0)
