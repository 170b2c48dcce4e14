"""The rule by which claims are judged, and the standard errors that it needs."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from paper.cache import Record, Run
from paper.experiments import digits, digits_components, mnist_units, networks
from paper.experiments.claims import (
    Claim,
    Estimate,
    Rate,
    combined,
    mean_of,
    median_of,
    signs,
    tally,
    verdict_of_number,
    verdict_of_ordering,
)
from paper.experiments.features import encode_predictions
from paper.experiments.tables import best_repetitions, span
from scipy.stats import norm


def estimates(*zs: float) -> list[Estimate]:
    return [Estimate(0.1 * z, 0.1) for z in zs]


@pytest.mark.parametrize(
    ("zs", "number", "ordering"),
    [
        ([1.9], "reproduced", "tie"),
        ([-1.9], "reproduced", "tie"),
        ([2.1], "differs (better)", "reproduced"),
        ([-2.1], "not reproduced", "not reproduced"),
        ([0.0], "reproduced", "tie"),
        ([3.0, 3.0, 3.0], "differs (better)", "reproduced"),
        ([3.0, 1.0], "differs (better)", "tie"),
        ([3.0, -3.0], "not reproduced", "not reproduced"),
        # Holm: with four comparisons the largest needs 2.5 standard errors, the smallest 2.
        ([2.1, 0.0, 0.0, 0.0], "reproduced", "tie"),
        ([-2.1, 3.0, 3.0, 3.0], "not reproduced", "not reproduced"),
        ([2.1, 3.0, 3.0, 3.0], "differs (better)", "reproduced"),
        ([2.1, 2.1, 2.1, 2.1], "reproduced", "tie"),
    ],
)
def test_numbers_and_orderings_are_judged_with_holms_correction(
    zs: list[float], number: str, ordering: str
) -> None:
    assert verdict_of_number(estimates(*zs)) == number
    assert verdict_of_ordering(estimates(*zs)) == ordering
    assert verdict_of_number(estimates(*zs[::-1])) == number


def test_holms_correction_is_that_of_its_definition() -> None:
    zs = np.array([3.1, -2.7, 2.45, 0.5, -1.0, 2.3])
    p = np.sort(2 * norm.sf(np.abs(zs)))
    level = 2 * norm.sf(2)
    accepted = np.flatnonzero(p > level / (6 - np.arange(6)))
    rejected = accepted[0] if len(accepted) else 6
    found = np.array(signs(estimates(*zs)))
    assert np.count_nonzero(found) == rejected
    assert np.abs(zs[found != 0]).min() > np.abs(zs[found == 0]).max()
    assert_array_equal(found[found != 0], np.sign(zs[found != 0]))


def test_an_exact_value_is_clear_unless_it_is_zero() -> None:
    assert signs([Estimate(0.1), Estimate(-0.1), Estimate(0.0)]) == [1, -1, 0]


def test_a_range_is_reproduced_within_two_standard_errors() -> None:
    """An order of magnitude is a factor of 5 to 20."""
    for value, expected in ((4, "not"), (4.9, ""), (5, ""), (20, ""), (20.1, ""), (21, "not")):
        margin = Estimate(value, 0.2).distance_to(5, 20)
        assert verdict_of_number([margin]) == f"{expected} reproduced".strip()


def test_a_claim_depends_on_a_choice_if_it_changes_the_verdict() -> None:
    assert combined({"": "tie"}) == "tie"
    assert combined({"one": "reproduced", "other": "reproduced"}) == "reproduced"
    assert combined({"one": "reproduced", "other": "tie"}) == "depends on a choice"


def test_a_claim_says_what_it_depends_on() -> None:
    margins = {"one": estimates(3.0), "other": estimates(-3.0), "not measured": []}
    here = {"one": "1", "other": "2", "not measured": "?", "": "3"}
    claim = Claim("A is better than B.", "better", here, margins, choice="the start")
    assert claim.text == "one ✓: 1; other ✗: 2; not measured: ?; 3"
    assert claim.verdict_text == "? the start"
    same = Claim("A is better than B.", "better", here, {"one": estimates(3.0)})
    assert same.text == "one: 1; other: 2; not measured: ?; 3"
    assert same.verdict_text == "✓"
    unjudged = Claim("A", "a", "b", {"": []})
    assert unjudged.outcome == "not judged"
    text = tally([claim, same, unjudged])
    assert text == (
        "Claims of the paper: 3; reproduced 1, not judged 1, depends on a choice 1 (the start 1)."
    )


def test_error_of_a_rate_is_binomial() -> None:
    assert Rate([0.0276], 10_000).estimate.error == pytest.approx(0.00164, rel=0.01)
    # Three repetitions with other samples have three times as many samples.
    assert Rate([0.2] * 3, 100).estimate.error == pytest.approx(np.sqrt(0.16 / 300))
    assert Rate([0.2] * 3, 100, same_samples=True).estimate.error == pytest.approx(0.04)
    # If the repetitions differ by more than chance, their spread counts.
    assert Rate([0.1, 0.5], 10_000).estimate.error == pytest.approx(0.2)
    assert Rate([0.0], 50).estimate.error == 1 / 50


def paired(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two methods that agree on nine of ten samples."""
    one = rng.random(n) < 0.9
    return one, np.where(rng.random(n) < 0.9, one, rng.random(n) < 0.9)


def test_methods_with_the_same_samples_have_the_error_of_mcnemars_test(
    rng: np.random.Generator,
) -> None:
    one, other = paired(rng, 500)
    difference = Rate([one.mean()], 500, one[None]) - Rate([other.mean()], 500, other[None])
    b, c = np.sum(one & ~other), np.sum(other & ~one)
    assert difference.value == pytest.approx((b - c) / 500)
    # McNemar's statistic is (b − c)²/(b + c).
    assert (difference.value / difference.error) ** 2 == pytest.approx((b - c) ** 2 / (b + c))
    unpaired = Rate([one.mean()], 500) - Rate([other.mean()], 500)
    assert unpaired.value == difference.value
    assert unpaired.error > 1.5 * difference.error


def test_repetitions_with_the_same_samples_do_not_count_as_more_samples(
    rng: np.random.Generator,
) -> None:
    one, other = paired(rng, 500)
    single = Rate([one.mean()], 500, one[None]) - Rate([other.mean()], 500, other[None])

    def repeated(hits: np.ndarray, n: int) -> Rate:
        return Rate([hits.mean()] * n, 500, np.array([hits] * n), same_samples=True)

    assert (repeated(one, 3) - repeated(other, 3)).error == pytest.approx(single.error)
    # The numbers of repetitions may differ.
    assert (repeated(one, 3) - repeated(other, 1)).error == pytest.approx(single.error)


def test_equal_predictions_are_a_tie() -> None:
    hits = np.array([[True] * 9 + [False]])
    difference = Rate([0.9], 10, hits) - Rate([0.9], 10, hits)
    assert (difference.value, difference.error) == (0, 0.1)
    assert verdict_of_ordering([difference]) == "tie"


def test_errors_of_means_and_medians(rng: np.random.Generator) -> None:
    values = rng.normal(10, 2, 400)
    assert mean_of(values).error == pytest.approx(0.1, rel=0.1)
    assert median_of(values).error == pytest.approx(0.1 * np.sqrt(np.pi / 2), rel=0.2)
    assert mean_of([3.0]).error == 0
    difference = Estimate(3, 0.3) - Estimate(1, 0.4)
    assert difference.value == 2
    assert difference.error == pytest.approx(0.5)


def units_record(m: int, test: float, seed: int = 0, lam: float = 0.5, val: float = 0.02) -> Record:
    settings = {"m": m, "lam": lam, "n": [50_000, 10_000, 10_000], "Cs": {"plain": [1.0]}}
    svm = {"val_error": val, "test_error": test, "C": 1.0, "zeros": 0.8}
    result = {"plain": svm, "fit_seconds": 1.0}
    return Record(Run("mnist-units", "paper", seed, False, settings), result, 1.0, {})


@pytest.mark.parametrize(
    ("m", "error", "expected"),
    [
        (400, 0.0270, "reproduced"),
        (400, 0.0300, "reproduced"),
        (1600, 0.0240, "not reproduced"),
        (400, 0.0228, "differs (better)"),
    ],
)
def test_errors_of_table_2_are_judged_on_both_sides(m: int, error: float, expected: str) -> None:
    (claim,) = mnist_units.claims([units_record(m, error)])
    assert claim.outcome == expected


def test_table_2_depends_on_the_stop_of_the_encoder() -> None:
    stopped = units_record(400, 0.02)
    settings = {**stopped.run.settings, "encoder_steps": [500, 2500]}
    found = {
        f"from 0, {t} steps": {"val_error": val, "test_error": test}
        for t, val, test in ((500, 0.03, 0.01), (2500, 0.02, 0.022))
    }
    record = replace(stopped, run=replace(stopped.run, settings=settings), result=found)
    (claim,) = mnist_units.claims([units_record(400, 0.0270), record])
    assert list(claim.verdicts.values()) == ["reproduced", "differs (better)"]
    assert "2.20±" in claim.text, "the number of steps is chosen on validation digits"


def test_settings_are_chosen_by_the_first_repetition() -> None:
    chosen = units_record(400, 0.03, 0, 0.5, 0.020)
    records = [
        chosen,
        units_record(400, 0.01, 0, 0.7, 0.025),
        units_record(400, 0.04, 1, 0.5, 0.030),
        units_record(400, 0.01, 1, 0.7, 0.010),
    ]
    found = best_repetitions((r["m"], r, r["plain"]) for r in reversed(records))
    assert [record for record, _ in found[400]] == [chosen, records[2]]
    (claim,) = mnist_units.claims(records)
    assert "3.50±" in claim.text


def digit_record(network: str, m: int, accuracy: float, seed: int = 0) -> Record:
    settings = {"network": network, "m": m, "side": 14, "n": [500] * 3, "lams": [0.1, 0.2, 0.3]}
    run = Run("digits-components", "paper", seed, False, settings)
    labels = np.zeros(500, int)
    predicted = (np.arange(500) >= round(500 * accuracy)).astype(int)
    columns = {
        "val_accuracy": [0.1, accuracy, 0.1],
        "test_accuracy": [0.1, accuracy, 0.1],
        "test_wrong": [encode_predictions(predicted, labels)["test_wrong"]] * 3,
    }
    return Record(run, columns, 1.0, {})


def figure_5(good: dict[int, float], others: dict[int, float]) -> list[str]:
    records = [
        digit_record(x, m, good[m] if x in digits.GOOD else others[m])
        for m in good
        for x in networks.NETWORKS
    ]
    return [claim.outcome for claim in digits_components.claims(records)]


def test_judgement_of_figure_5() -> None:
    flat = {25: 0.88, 100: 0.88, 150: 0.88}
    assert figure_5(flat, {25: 0.7, 100: 0.7, 150: 0.88}) == ["reproduced", "reproduced"]
    # Equal with 100 units
    assert figure_5(flat, {25: 0.7, 100: 0.88, 150: 0.88}) == ["reproduced", "tie"]
    assert figure_5(flat, {25: 0.7, 100: 0.94, 150: 0.88}) == ["reproduced", "not reproduced"]
    low = dict.fromkeys(flat, 0.3)
    assert figure_5(low, dict.fromkeys(flat, 0.1)) == ["not reproduced", "reproduced"]
    steep = {25: 0.8, 100: 0.9, 150: 0.9}
    assert figure_5(steep, dict.fromkeys(flat, 0.6)) == ["not reproduced", "reproduced"]


def test_spans_of_values() -> None:
    assert span([0.2, 0.1, 0.3], ".1f") == "0.1–0.3"
    assert span([0.11, 0.12], ".1f") == "0.1"
    assert span([-0.2, 1], ".1f") == "−0.2 to 1.0"


def test_methods_are_compared_on_shared_repetitions() -> None:
    records = [digit_record(x, 25, 0.8) for x in networks.NETWORKS]
    records += [digit_record("SCNN", 50, 0.3)]
    assert list(digits.cells(records, "m")["SCNN"]) == [25]
    # Repetitions are matched by their seeds, and only those of both networks count.
    one = [digit_record("SCNN", 25, 0.8, seed) for seed in (0, 2)]
    other = [digit_record("ASCNN", 25, a, seed) for a, seed in ((0.6, 2), (0.1, 1))]
    assert digits.difference(one, other).value == pytest.approx(0.2)
