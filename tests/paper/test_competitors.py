"""The start and the training of ASCNN and SAANN, the times, and the pictures."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from paper.experiments import competitor_runs, competitors, digit_grid, networks, pictures, times
from paper.experiments.experiment import Record, Run
from paper.experiments.predictions import decode_wrong, encode_predictions
from paper.experiments.samples import Samples


def a_run(**settings: Any) -> Run:
    fixed = {"network": "SAANN", "m": 5, "side": 28, "n": [60, 40, 40], "lams": [0.03]}
    return Run("competitors", "smoke", 0, True, {**fixed, "Cs": [1.0], **settings})


def test_learning_rate_is_chosen_on_validation_digits() -> None:
    run = a_run(init="scaled", solver="adam", passes=3, rates=[0.0, 0.02])
    found = competitor_runs.measure(run, Samples(embedded=True))
    assert found["learning_rate"] == [0.0, 0.02]
    record = Record(run, found, 1.0, {}, {}, "")
    best = int(np.argmax(found["val_accuracy"]))
    assert competitors.accuracy(record) == found["test_accuracy"][best]
    wrong = decode_wrong(found["test_wrong"], 40)
    assert 1 - wrong.mean() == pytest.approx(found["test_accuracy"][best])
    parameters = found["parameters"]["SAANN"]
    assert (parameters["solver"], parameters["init"], parameters["max_iter"]) == (
        "adam",
        "scaled",
        3,
    )


def test_diverging_training_counts_as_an_accuracy_of_zero() -> None:
    run = a_run(init="paper", solver="sgd", passes=2, rates=[1e300, 1e-4])
    found = competitor_runs.measure(run, Samples(embedded=True))
    assert found["val_accuracy"][0] == 0
    assert found["val_accuracy"][1] > 0
    assert found["test_predictions"]


def test_every_combination_has_a_row() -> None:
    runs = competitor_runs.runs("paper", 0, False)
    records = [Record(run, fake(run), 1.0, {"name": "MNIST"}, {}, "") for run in runs]
    table, verdicts = competitors.tables(records)
    assert len(verdicts.rows) == 2 * 2 * 3
    assert len(table.rows) == 3 + 2 * 2 * 2 * 3
    assert [row[0] for row in table.rows[:3]] == ["SCNN", digit_grid.PAPER_START, "raw pixels"]
    # The chosen learning rate, the second, is the largest.
    assert all(cell.endswith("*") for row in table.rows[3:] for cell in row[1:])
    assert not any(cell.endswith("*") for row in table.rows[:3] for cell in row[1:])
    assert all(all(row[1:]) for row in table.rows)
    figure = Figure()
    competitors.plot(figure, records)
    assert len(figure.axes) == 10


def fake(run: Run) -> dict[str, Any]:
    wrong = encode_predictions(np.arange(500) % 5 < 2, np.zeros(500))["test_wrong"]
    if run.group != "competitors":
        n = len(run.settings["lams"])
        accuracy = np.linspace(0.5, 0.9, n).tolist()
        return {"val_accuracy": accuracy, "test_accuracy": accuracy, "test_wrong": [wrong] * n}
    return {
        "val_accuracy": [0.8, 0.9],
        "test_accuracy": [0.7, 0.6],
        "learning_rate": [0.01, max(run.settings["rates"])],
        "C": [0.1, 1.0],
        "test_wrong": wrong,
    }


def test_networks_take_turns_in_the_times() -> None:
    run = Run(
        "times",
        "smoke",
        0,
        True,
        {
            "m": 4,
            "side": 28,
            "n": [60, 40, 40],
            "lams": {x: [0.1, 0.2] for x in times.TIMED},
            "stop": {x: {"max_iter": 1} for x in times.TIMED},
            "rounds": 2,
        },
    )
    found = times.measure(run, Samples(embedded=True))
    for x in networks.NETWORKS:
        assert len(found[x]["fit_seconds"]) == len(found[x]["encode_seconds"]) == 4
        assert found["parameters"][x]["n_components"] == 4
    record = Record(run, found, 1.0, {}, {}, "")
    table = times.times([record], "fit_seconds")
    assert table.loc["SCNN", 4] == found["SCNN"]["fit_seconds"]
    assert times.median_and_quartiles([1, 2, 3, 4, 5], 10) == "30.00 (20.00 to 40.00)"


def test_pictures_survive_a_round_trip(rng: np.random.Generator) -> None:
    W = rng.standard_normal((6, 9)) * [[1], [10], [0], [1e-3], [5], [2]]
    shown = pictures.decode_pictures(pictures.encode_pictures(W), 3)
    largest = np.abs(W).max(axis=1, keepdims=True)
    largest[2] = 1
    assert_allclose(shown, W / largest, atol=0.5 / 127)


def test_sparsenet_has_no_filters() -> None:
    settings = {"data": "digits", "m": 5, "side": 4, "lam": 0.1, "n": [60, 1, 1]}
    records = []
    for network in ("SAANN", "Sparsenet"):
        run = Run("pictures", "smoke", 0, True, {"network": network, **settings})
        found = dict(pictures.measure(run, Samples(embedded=True)))
        assert ("filters" in found) == (network == "SAANN")
        found.pop("parameters")
        records.append(Record(run, found, 1.0, {}, {}, ""))
    figure = Figure()
    pictures.plot(figure, records)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == "SAANN\natoms, λ = 0.1"
    assert titles[3] == "Sparsenet\nno filters"
