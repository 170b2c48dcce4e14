"""MiniBatchSCNN as a scikit-learn transformer."""

import pickle
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from lincode.estimators.samples import check_samples
from lincode.estimators.training_rows import TrainingRows
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from lincode import SCNN, Iteration, MiniBatchSCNN
from lincode.exceptions import InvalidInputError


def network(**parameters: Any) -> MiniBatchSCNN:
    scnn: MiniBatchSCNN = MiniBatchSCNN(16, 0.1, random_state=0).set_params(**parameters)
    return scnn


def test_energy_is_close_to_that_of_scnn(digits: Any) -> None:
    """It is within 2 % with batches of only ten samples per unit."""
    best = SCNN(16, 0.1, encoder_ridge=0.01, random_state=0).fit(digits)
    scnn = network(batch_size=150, encoder_ridge=0.01).fit(digits)
    assert -scnn.score(digits) < 1.02 * -best.score(digits)
    assert scnn.n_steps_ >= 4
    assert scnn.n_samples_seen_ >= 600
    assert "converged" in scnn.stop_reason_


def test_partial_fit_learns_batches_of_any_size_and_continues_after_fit(digits: Any) -> None:
    scnn = network()
    for rows in (slice(0, 200), slice(200, 210), slice(210, 600)):
        scnn.partial_fit(digits[rows])
    assert scnn.n_samples_seen_ == 600
    assert scnn.energy_path_.shape == (3,)
    assert scnn.energy_path_[2] < 0.9 * scnn.energy_path_[0]
    fitted = network(batch_size=200).fit(digits)
    seen, score = fitted.n_samples_seen_, fitted.score(digits)
    assert fitted.partial_fit(digits[:100]).n_samples_seen_ == seen + 100
    assert fitted.score(digits) > 1.1 * score


def test_partial_fit_with_one_row_at_a_time(digits: Any) -> None:
    scnn = network(n_components=4)
    for row in digits[:20]:
        scnn.partial_fit(row[None])
    assert scnn.n_samples_seen_ == 20
    assert np.isfinite(scnn.components_).all()


def test_short_half_life_adapts_to_a_changing_stream(digits: Any) -> None:
    inverted = 1 - digits
    scores = {}
    for half_life in (100.0, float("inf")):
        scnn = network(half_life=half_life, n_components=8)
        for _ in range(3):
            for start in range(0, 600, 200):
                scnn.partial_fit(digits[start : start + 200])
        for start in range(0, 600, 200):
            scnn.partial_fit(inverted[start : start + 200])
        scores[half_life] = scnn.score(inverted)
    assert scores[100.0] > 0.9 * scores[float("inf")]


def test_same_seed_gives_identical_results_for_any_number_of_threads(digits: Any) -> None:
    one = network(batch_size=200, n_jobs=1).fit(digits)
    two = network(batch_size=200, n_jobs=2).fit(digits)
    assert_allclose(one.components_, two.components_, atol=1e-9)
    again = network(batch_size=200, n_jobs=1).fit(digits)
    assert_array_equal(one.components_, again.components_)
    other = network(batch_size=200, random_state=1).fit(digits)
    assert not np.allclose(one.components_, other.components_)


@pytest.mark.parametrize("convert", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_sparse_input_gives_the_same_network(digits: Any, convert: Any) -> None:
    dense = network(batch_size=200).fit(digits)
    sparse = network(batch_size=200).fit(convert(digits))
    assert_allclose(sparse.components_, dense.components_, atol=1e-6)


def test_float32_is_preserved(digits: Any) -> None:
    scnn = network(batch_size=200).fit(digits.astype(np.float32))
    assert scnn.components_.dtype == scnn.transform(digits.astype(np.float32)).dtype == np.float32
    assert_allclose(
        -scnn.score(digits), -network(batch_size=200).fit(digits).score(digits), rtol=0.02
    )


@pytest.mark.slow
def test_memory_does_not_depend_on_the_number_of_samples(tmp_path: Path) -> None:
    def peak(N: int) -> int:
        np.save(tmp_path / "X.npy", np.random.default_rng(0).standard_normal((N, 20)))
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
        tracemalloc.start()
        network(n_components=40, batch_size=1000, max_iter=1, max_no_improvement=None).fit(X)
        largest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return largest

    peak(2_000)
    small, large = peak(12_000), peak(48_000)  # at most 10,000 rows are kept for the last step
    codes = 36_000 * 40 * 8
    assert large - small < 0.15 * codes


def test_failed_batch_changes_nothing(digits: Any) -> None:
    scnn = network().partial_fit(digits)
    before = pickle.dumps(vars(scnn))
    bad = digits.copy()
    bad[3, 3] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        scnn.partial_fit(bad)
    with pytest.raises(ValueError, match="features"):
        scnn.partial_fit(digits[:, :30])
    with pytest.raises(ValueError, match="n_components must remain 16"):
        scnn.set_params(n_components=10).partial_fit(digits)
    scnn.set_params(n_components=16)
    assert pickle.dumps(vars(scnn)) == before


def test_warning_at_max_iter_unless_all_passes_were_requested(digits: Any) -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter passes"):
        network(batch_size=100, max_iter=1, max_no_improvement=50).fit(digits)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        scnn = network(batch_size=100, max_iter=2, max_no_improvement=None).fit(digits)
    assert scnn.n_iter_ == 2
    assert scnn.n_steps_ == 12


def test_pickled_stream_can_be_continued(digits: Any) -> None:
    scnn = network().partial_fit(digits[:300])
    restored = pickle.loads(pickle.dumps(scnn))
    assert_array_equal(
        scnn.partial_fit(digits[300:]).components_, restored.partial_fit(digits[300:]).components_
    )


def test_warning_if_all_codes_are_zero(digits: Any) -> None:
    scnn = network()
    scnn.set_params(alpha=2 * scnn.alpha_max(digits))
    with pytest.warns(UserWarning, match="MiniBatchSCNN: all codes will be zero"):
        scnn.fit(digits)


def test_half_life_may_be_an_infinite_scalar_of_numpy(digits: Any) -> None:
    expected = network(half_life=float("inf")).fit(digits)
    actual = network(half_life=np.float32("inf")).fit(digits)
    assert_array_equal(actual.components_, expected.components_)


def test_verbose_prints_the_number_of_batches_when_it_is_known(
    digits: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    known: list[int | None] = []
    scnn = network(max_no_improvement=None, max_iter=2, verbose=1)
    scnn.set_params(callback=lambda iteration: known.append(iteration.max_iter))
    scnn.fit_batches([digits[:300], digits[300:]])
    lines = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    name = "[MiniBatchSCNN] batch"
    assert lines == [f"{name} 1", f"{name} 2", f"{name} 3/4", f"{name} 4/4"]
    assert known == [None, None, 4, 4]


def test_verbose_prints_one_line_per_batch(digits: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scnn = network(batch_size=300, verbose=1).fit(digits)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == scnn.n_steps_
    assert lines[1].startswith("[MiniBatchSCNN] batch 2/200  energy per sample ")
    assert lines[1].endswith("600 samples")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"batch_size": 0}, "batch_size must be None or an integer of at least 1"),
        ({"batch_size": 10.0}, "batch_size must be None or an integer"),
        ({"half_life": 0.0}, "half_life must be None, inf or a finite number of at least 1, got"),
        ({"half_life": -np.inf}, "half_life must be None, inf or a finite number of at least 1"),
        ({"half_life": "inf"}, "half_life must be None, inf or a finite number of at least 1"),
        ({"init": object()}, r"init must be 'data' or an array of numbers of shape \("),
        ({"init": "random"}, "init must be 'data' or an array of atoms, got 'random'"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"max_no_improvement": 0}, "max_no_improvement must be"),
        ({"init": "paper"}, "init must be 'data' or an array"),
        ({"tol": -1}, "tol must be"),
        ({"sparse_output": "yes"}, "sparse_output must be True or False"),
    ],
)
def test_invalid_parameters_are_explained(
    digits: Any, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        network(**parameters).fit(digits)


def test_atoms_of_forgotten_data_are_replaced() -> None:
    rng = np.random.default_rng(0)
    first = rng.random((500, 12)) * (np.arange(12) < 6)
    then = rng.random((500, 12)) * (np.arange(12) >= 6)
    scnn = MiniBatchSCNN(10, 0.05, half_life=500, random_state=0).partial_fit(first)
    for _ in range(20):
        scnn.partial_fit(then)
    assert scnn.n_replaced_atoms_ > 0
    alone = MiniBatchSCNN(10, 0.05, random_state=0).partial_fit(then)
    assert -scnn.score(then) < 1.1 * -alone.score(then)


@pytest.mark.parametrize("seed", range(5))
def test_batches_of_mixed_precision(seed: int) -> None:
    """Sums that include a batch of float32 have the rounding errors of float32."""
    rng = np.random.default_rng(seed)
    scnn = MiniBatchSCNN(16, 0.05, random_state=0, n_jobs=1)
    scnn.partial_fit((1e4 * rng.standard_normal((5, 8))).astype(np.float32))
    scnn.partial_fit(rng.standard_normal((5, 8)))
    assert np.isfinite(scnn.components_).all()


def test_batch_of_zeros_does_not_reset_the_threshold(digits: Any) -> None:
    scnn = network().partial_fit(digits)
    before = scnn.matching_threshold_
    scnn.partial_fit(np.zeros((10, 64)))
    assert scnn.matching_threshold_ > 0.9 * before


def test_second_fit_is_independent_of_the_first(digits: Any) -> None:
    twice = network(batch_size=200).fit(1 - digits).fit(digits)
    once = network(batch_size=200).fit(digits)
    assert twice.matching_threshold_ == once.matching_threshold_
    assert_array_equal(twice.components_, once.components_)


def test_batches_have_nearly_equal_size(digits: Any) -> None:
    samples = check_samples(None, digits[:501], reset=False)
    rows = TrainingRows(samples, None, batch_size=100, max_passes=3)
    sizes = [len(batch.X) for batch in rows.batches(seed=0, first=0)]
    assert sizes == [84, 84, 84, 83, 83, 83] * 3
    assert rows.max_batches() == len(sizes)


def test_callback_receives_every_batch_and_can_stop(digits: Any) -> None:
    seen: list[Iteration] = []
    scnn = network(batch_size=100, max_iter=3, max_no_improvement=None, callback=seen.append)
    scnn.fit(digits)
    assert [iteration.n_iter for iteration in seen] == list(range(1, 19))
    assert {iteration.max_iter for iteration in seen} == {18}
    assert_allclose([iteration.energy_per_sample for iteration in seen], scnn.energy_path_)
    expected = np.abs(np.diff(scnn.energy_path_)) / scnn.energy_path_[:-1]
    assert_allclose([iteration.change for iteration in seen[1:]], expected)
    seconds = [iteration.seconds for iteration in seen]
    assert seconds[0] > 0
    assert seconds == sorted(seconds)
    scnn.set_params(callback=lambda iteration: iteration.n_iter == 4).fit(digits)
    assert scnn.n_steps_ == 4
    assert scnn.n_samples_seen_ == 400
    assert scnn.n_iter_ == 1
    assert scnn.stop_reason_ == "the callback requested a stop"
    assert scnn.transform(digits).any()


def test_callback_of_partial_fit(digits: Any) -> None:
    seen: list[Iteration] = []
    scnn = network(callback=lambda iteration: seen.append(iteration) or True)  # type: ignore[func-returns-value]
    for start in (0, 200, 400):
        scnn.partial_fit(digits[start : start + 200])
    assert [(iteration.n_iter, iteration.max_iter) for iteration in seen] == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]
    assert all(0 < iteration.seconds < 60 for iteration in seen)
    assert scnn.n_steps_ == 3


def test_error_in_the_callback_keeps_the_previous_network(digits: Any) -> None:
    scnn = network(batch_size=200).fit(digits)
    before = pickle.dumps(vars(scnn))

    def fail(_: Iteration) -> None:
        raise KeyboardInterrupt

    for method in (scnn.fit, scnn.partial_fit):
        scnn.callback = fail
        with pytest.raises(KeyboardInterrupt):
            method(1 - digits)
        scnn.callback = None
        assert pickle.dumps(vars(scnn)) == before


def test_energy_of_batches_is_that_of_the_score_for_features_that_depend_on_each_other() -> None:
    """The ridge is relative to the mean eigenvalue that is not zero, in training and afterwards."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 5)) @ rng.standard_normal((5, 100))
    scnn = MiniBatchSCNN(10, encoder_ridge=0.3, batch_size=100, random_state=0).fit(X)
    assert_allclose(scnn.energy_, -scnn.score(X), rtol=0.03)
    assert -scnn.score(X) < 1.03 * SCNN(10, encoder_ridge=0.3, random_state=0).fit(X).energy_


def test_singular_gram_matrix_in_float32_without_a_ridge() -> None:
    rng = np.random.RandomState(0)
    X = (rng.standard_normal((2000, 20)) @ rng.standard_normal((20, 300))).astype(np.float32)
    scnn = MiniBatchSCNN(8, random_state=0, encoder_ridge=0.0, max_iter=2, max_no_improvement=None)
    assert np.isfinite(scnn.fit(X).encoder_).all()


@pytest.mark.parametrize("order", [0, 1])
def test_batches_may_be_dense_and_sparse(digits: Any, order: int) -> None:
    batches = [digits[:300].astype(np.float32), scipy.sparse.csr_matrix(digits[300:])]
    mixed = network(max_iter=2, max_no_improvement=None)
    mixed.fit_batches(batches[::-1] if order else batches)
    assert mixed.n_samples_seen_ == 1200


def test_weights_of_one_change_nothing(digits: Any) -> None:
    weighted = network(batch_size=200).fit(digits, sample_weight=np.ones(600))
    assert_array_equal(weighted.components_, network(batch_size=200).fit(digits).components_)


@pytest.mark.parametrize("convert", [scipy.sparse.csr_matrix, np.asarray])
def test_a_single_array_is_not_an_iterable_of_batches(digits: Any, convert: Any) -> None:
    with pytest.raises(InvalidInputError, match="use fit for a single array"):
        network().fit_batches(convert(digits))
