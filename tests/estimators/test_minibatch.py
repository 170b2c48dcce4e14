"""MiniBatchSCNN as its users see it."""

import pickle
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from lincode import SCNN, MiniBatchSCNN

pytestmark = pytest.mark.filterwarnings("ignore:MiniBatchSCNN. the encoder's codes")


def quick(**parameters: Any) -> MiniBatchSCNN:
    scnn: MiniBatchSCNN = MiniBatchSCNN(16, 0.1, random_state=0).set_params(**parameters)
    return scnn


def test_energy_is_near_that_of_scnn(digits: Any) -> None:
    """Within 2 % with batches of no more than ten samples a unit."""
    best = SCNN(16, 0.1, random_state=0).fit(digits)
    scnn = quick(batch_size=150).fit(digits)
    assert -scnn.score(digits) < 1.02 * -best.score(digits)
    assert scnn.n_batches_ >= 4
    assert scnn.n_samples_seen_ >= 600
    assert "converged" in scnn.stop_reason_


def test_partial_fit_learns_batches_of_unequal_size_and_goes_on_after_fit(digits: Any) -> None:
    scnn = quick()
    for rows in (slice(0, 200), slice(200, 210), slice(210, 600)):
        scnn.partial_fit(digits[rows])
    assert scnn.n_samples_seen_ == 600
    assert scnn.energy_path_.shape == (3,)
    assert scnn.energy_path_[2] < 0.9 * scnn.energy_path_[0]
    fitted = quick(batch_size=200).fit(digits)
    seen, score = fitted.n_samples_seen_, fitted.score(digits)
    assert fitted.partial_fit(digits[:100]).n_samples_seen_ == seen + 100
    assert fitted.score(digits) > 1.1 * score


def test_one_row_at_a_time(digits: Any) -> None:
    scnn = quick(n_components=4)
    for row in digits[:20]:
        scnn.partial_fit(row[None])
    assert scnn.n_samples_seen_ == 20
    assert np.isfinite(scnn.components_).all()


def test_forgetting_follows_a_stream_that_changes(digits: Any) -> None:
    inverted = 1 - digits
    scores = {}
    for half_life in (100.0, float("inf")):
        scnn = quick(half_life=half_life, n_components=8)
        for _ in range(3):
            for start in range(0, 600, 200):
                scnn.partial_fit(digits[start : start + 200])
        for start in range(0, 600, 200):
            scnn.partial_fit(inverted[start : start + 200])
        scores[half_life] = scnn.score(inverted)
    assert scores[100.0] > 0.9 * scores[float("inf")]


def test_seeds_reproduce_and_threads_change_nothing(digits: Any) -> None:
    one = quick(batch_size=200, n_jobs=1).fit(digits)
    two = quick(batch_size=200, n_jobs=2).fit(digits)
    assert_allclose(one.components_, two.components_, atol=1e-9)
    again = quick(batch_size=200, n_jobs=1).fit(digits)
    assert_array_equal(one.components_, again.components_)
    other = quick(batch_size=200, random_state=1).fit(digits)
    assert not np.allclose(one.components_, other.components_)


@pytest.mark.parametrize("convert", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_sparse_data_give_the_same_network(digits: Any, convert: Any) -> None:
    dense = quick(batch_size=200).fit(digits)
    sparse = quick(batch_size=200).fit(convert(digits))
    assert_allclose(sparse.components_, dense.components_, atol=1e-6)


def test_float32_stays_float32(digits: Any) -> None:
    scnn = quick(batch_size=200).fit(digits.astype(np.float32))
    assert scnn.components_.dtype == scnn.transform(digits.astype(np.float32)).dtype == np.float32
    assert_allclose(
        -scnn.score(digits), -quick(batch_size=200).fit(digits).score(digits), rtol=0.02
    )


def test_memory_does_not_depend_on_the_number_of_samples(tmp_path: Path) -> None:
    def peak(N: int) -> int:
        np.save(tmp_path / "X.npy", np.random.default_rng(0).standard_normal((N, 20)))
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
        tracemalloc.start()
        quick(n_components=40, batch_size=1000, max_iter=1, max_no_improvement=None).fit(X)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(2_000)
    small, large = peak(4_000), peak(40_000)
    codes = 36_000 * 40 * 8
    assert large - small < 0.15 * codes


def test_a_failed_batch_changes_nothing(digits: Any) -> None:
    scnn = quick().partial_fit(digits)
    before = pickle.dumps(vars(scnn))
    bad = digits.copy()
    bad[3, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        scnn.partial_fit(bad)
    with pytest.raises(ValueError, match="features"):
        scnn.partial_fit(digits[:, :30])
    with pytest.raises(ValueError, match="n_components must stay 16"):
        scnn.set_params(n_components=10).partial_fit(digits)
    scnn.set_params(n_components=16)
    assert pickle.dumps(vars(scnn)) == before


def test_max_iter_is_said_and_none_asks_for_all_passes(digits: Any) -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter passes"):
        quick(batch_size=100, max_iter=1, max_no_improvement=50).fit(digits)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        scnn = quick(batch_size=100, max_iter=2, max_no_improvement=None).fit(digits)
    assert scnn.n_iter_ == 2
    assert scnn.n_batches_ == 12


def test_a_pickled_stream_goes_on(digits: Any) -> None:
    scnn = quick().partial_fit(digits[:300])
    copy = pickle.loads(pickle.dumps(scnn))
    assert_array_equal(
        scnn.partial_fit(digits[300:]).components_, copy.partial_fit(digits[300:]).components_
    )


def test_all_codes_zero_is_said(digits: Any) -> None:
    scnn = quick()
    scnn.set_params(alpha=2 * scnn.alpha_max(digits))
    with pytest.warns(UserWarning, match="MiniBatchSCNN: every code is zero"):
        scnn.fit(digits)


def test_verbose_tells_of_each_batch(digits: Any, capsys: pytest.CaptureFixture[str]) -> None:
    quick(batch_size=300, verbose=1).fit(digits)
    assert "[MiniBatchSCNN] batch 2  samples 600" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
        ({"batch_size": 10.0}, "batch_size must be an integer"),
        ({"half_life": 0.0}, "half_life must be a finite number of at least 1"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"max_no_improvement": 0}, "max_no_improvement must be"),
        ({"init": "paper"}, "init must be 'data' or an array"),
        ({"tol": -1}, "tol must be"),
        ({"sparse_output": "yes"}, "sparse_output must be True or False"),
    ],
)
def test_bad_parameters_are_refused(digits: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        quick(**parameters).fit(digits)


def test_atoms_of_a_past_long_gone_are_revived() -> None:
    rng = np.random.default_rng(0)
    first = rng.random((500, 12)) * (np.arange(12) < 6)
    then = rng.random((500, 12)) * (np.arange(12) >= 6)
    scnn = MiniBatchSCNN(10, 0.05, half_life=500, random_state=0).partial_fit(first)
    for _ in range(20):
        scnn.partial_fit(then)
    assert scnn.n_revived_ > 0
    alone = MiniBatchSCNN(10, 0.05, random_state=0).partial_fit(then)
    assert -scnn.score(then) < 1.1 * -alone.score(then)


@pytest.mark.parametrize("seed", range(5))
def test_batches_of_mixed_precision(seed: int) -> None:
    """Sums that began in float32 round like float32 ever after."""
    rng = np.random.default_rng(seed)
    scnn = MiniBatchSCNN(16, 0.05, random_state=0, n_jobs=1)
    scnn.partial_fit((1e4 * rng.standard_normal((5, 8))).astype(np.float32))
    scnn.partial_fit(rng.standard_normal((5, 8)))
    assert np.isfinite(scnn.components_).all()


def test_an_empty_batch_does_not_set_the_threshold(digits: Any) -> None:
    scnn = quick(threshold="match").partial_fit(digits)
    before = scnn.matching_threshold_
    scnn.partial_fit(np.zeros((10, 64)))
    assert scnn.matching_threshold_ > 0.9 * before


def test_a_second_fit_knows_nothing_of_the_first(digits: Any) -> None:
    twice = quick(batch_size=200).fit(1 - digits).fit(digits)
    once = quick(batch_size=200).fit(digits)
    assert twice.matching_threshold_ == once.matching_threshold_
    assert_array_equal(twice.components_, once.components_)


def test_batches_are_of_one_size(digits: Any) -> None:
    scnn = quick(batch_size=100)
    sizes = [len(batch) for batch in scnn._batches(digits[:501], np.random.RandomState(0))]
    assert sizes == [84, 84, 84, 83, 83, 83] * 10
