"""SAANN, ASCNN and Sparsenet: training, reproducibility and the interface they share with SCNN."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from lincode.networks.epochs import root_mean_square
from lincode.networks.saann import SAANNEnergy
from lincode.networks.sparsenet import SparsenetTraining
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from lincode import ASCNN, SAANN, Sparsenet
from lincode.exceptions import InvalidInputError
from lincode.metrics import rms_error

NETWORKS: list[Any] = [
    SAANN(12, 0.01, max_iter=20, random_state=0),
    ASCNN(12, 0.01, max_iter=20, random_state=0),
    Sparsenet(12, 0.02, max_iter=5, random_state=0),
]
every_network = pytest.mark.parametrize("network", NETWORKS, ids=lambda n: type(n).__name__)


@every_network
def test_training_lowers_the_energy_below_that_of_a_random_network(
    network: Any, digits: Any
) -> None:
    network = clone(network).fit(digits)
    path = network.energy_path_
    assert len(path) == network.n_iter_ + 1
    assert network.energy_ == path[-1]
    assert path[-1] < 0.7 * path[0]
    assert path[-1] <= 1.001 * path[1:].min()
    random = clone(network).set_params(learning_rate=0.0, max_iter=1).fit(digits)
    assert network.score(digits) > random.score(digits)
    assert rms_error(digits, network.reconstruct(digits)) < rms_error(
        digits, random.reconstruct(digits)
    )


@every_network
def test_score_is_minus_the_energy_per_sample(network: Any, digits: Any) -> None:
    network = clone(network).fit(digits)
    tolerance = (
        0.02 if isinstance(network, Sparsenet) else 1e-9
    )  # score computes more accurate codes than fit
    assert_allclose(-network.score(digits), network.energy_, rtol=tolerance)


@every_network
def test_the_same_seed_gives_identical_weights_and_another_seed_does_not(
    network: Any, digits: Any
) -> None:
    first, second = clone(network).fit(digits), clone(network).fit(digits)
    assert_array_equal(first.components_, second.components_)
    assert_array_equal(first.transform(digits), second.transform(digits))
    other = clone(network).set_params(random_state=1).fit(digits)
    assert not np.allclose(first.components_, other.components_)


@every_network
def test_scaling_the_data_scales_the_dictionary(network: Any, digits: Any) -> None:
    """alpha is scaled like the energy. The codes of Sparsenet have the scale of the data."""
    one = clone(network).fit(digits)
    ten = clone(network).set_params(alpha=100 * network.alpha).fit(10 * digits)
    atoms, codes = (1, 10) if isinstance(network, Sparsenet) else (10, 1)
    assert_allclose(ten.components_, atoms * one.components_, rtol=1e-6, atol=1e-9 * atoms)
    assert_allclose(ten.transform(10 * digits), codes * one.transform(digits), rtol=1e-4, atol=1e-6)


@every_network
def test_float32_stays_float32(network: Any, digits: Any) -> None:
    X = digits.astype(np.float32)
    single, double = clone(network).fit(X), clone(network).fit(digits)
    codes = single.transform(X)
    assert codes.dtype == single.components_.dtype == np.float32
    assert single.inverse_transform(codes).dtype == np.float32
    assert_allclose(single.energy_, double.energy_, rtol=0.02)


@every_network
def test_sparse_and_named_data(network: Any, digits: Any) -> None:
    dense = clone(network).fit(digits)
    sparse = clone(network).fit(scipy.sparse.csr_array(digits))
    assert_allclose(sparse.components_, dense.components_, rtol=1e-6, atol=1e-9)
    assert_allclose(
        sparse.transform(scipy.sparse.csr_array(digits)), dense.transform(digits), atol=1e-6
    )
    frame = pd.DataFrame(digits, columns=[f"x{i}" for i in range(64)])
    named = clone(network).set_output(transform="pandas").fit(frame)
    name = type(network).__name__.lower()
    assert list(named.transform(frame).columns) == [f"{name}{i}" for i in range(12)]


@every_network
def test_warm_start_continues_from_the_fitted_weights(network: Any, digits: Any) -> None:
    network = clone(network).set_params(warm_start=True).fit(digits)
    before = network.score(digits)
    network.set_params(learning_rate=0.0, max_iter=1)
    if isinstance(network, Sparsenet):
        network.set_params(gain=0.0)  # keeps the lengths of the atoms
    network.fit(digits)
    tolerance = (
        0.05 if isinstance(network, ASCNN) else 1e-9
    )  # its second stage fits the encoder again
    assert_allclose(network.score(digits), before, rtol=tolerance)
    with pytest.raises(
        ValueError, match=r"warm_start=True needs .* to stay \(12, 64\), got \(5, 64\)"
    ):
        network.set_params(n_components=5).fit(digits)
    assert network.components_.shape == (12, 64)


@every_network
def test_callback_is_called_after_each_pass_and_can_stop_training(
    network: Any, digits: Any, capsys: Any
) -> None:
    seen: list[Any] = []

    def stop(now: Any) -> bool:
        seen.append(now)
        return bool(now.n_iter == 2)

    network = clone(network).set_params(callback=stop, verbose=1).fit(digits)
    assert [now.n_iter for now in seen] == [1, 2], (
        "the callback is not called after it stopped training"
    )
    assert network.stop_reason_.startswith("the callback requested a stop")
    assert len(network.energy_path_) == network.n_iter_ + 1
    if isinstance(network, ASCNN):
        assert len(network.first_stage_energy_path_) == 3
        assert "first stage" in network.stop_reason_
    else:
        assert network.n_iter_ == 2
    assert "energy per sample" in capsys.readouterr().out
    assert np.isfinite(network.transform(digits)).all()


@every_network
def test_a_failed_fit_does_not_change_the_network(network: Any, digits: Any) -> None:
    network = clone(network).fit(digits)
    before = network.components_.copy()

    def fail(now: Any) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        network.set_params(callback=fail).fit(digits[:, :30])
    assert_array_equal(network.components_, before)
    assert network.n_features_in_ == 64


@every_network
@pytest.mark.parametrize("as_rows", [np.asarray, scipy.sparse.csr_array])
def test_all_zero_data_raise_a_warning(network: Any, as_rows: Any) -> None:
    X = as_rows(np.zeros((5, 6)))
    with pytest.warns(UserWarning, match=r"all entries of X are zero.*check how X was loaded") as w:
        fitted = clone(network).fit(X)
    assert [warning.filename for warning in w] == [__file__], "the warning names the call of fit"
    assert np.isfinite(fitted.transform(X)).all()
    assert np.isfinite(fitted.components_).all()


@every_network
def test_a_single_sample_gives_finite_weights(network: Any) -> None:
    X = np.ones((1, 6))
    fitted = clone(network).fit(X)
    assert np.isfinite(fitted.transform(X)).all()
    assert np.isfinite(fitted.components_).all()


@every_network
@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("n_components", 0, ValueError),
        ("alpha", -1, ValueError),
        ("alpha", "a", TypeError),
        ("learning_rate", -0.1, ValueError),
        ("batch_size", 0, ValueError),
        ("batch_size", 1.5, TypeError),
        ("max_iter", 0, ValueError),
        ("warm_start", 1, TypeError),
        ("callback", 3, TypeError),
        ("verbose", -1, ValueError),
    ],
)
def test_bad_parameters_are_named_in_the_error(
    network: Any, name: str, value: Any, error: Any, digits: Any
) -> None:
    with pytest.raises(error, match=f"{name} must be"):
        clone(network).set_params(**{name: value}).fit(digits)


@every_network
def test_alpha_strings_are_for_scnn_only(network: Any, digits: Any) -> None:
    message = r"alpha must be .*got '0.05\*max'; strings such as '0.05\*max' are for SCNN"
    with pytest.raises(InvalidInputError, match=message):
        clone(network).set_params(alpha="0.05*max").fit(digits)


@pytest.mark.parametrize(
    ("network", "name", "value"),
    [
        (SAANN(), "activation", "relu"),
        (ASCNN(), "activation", "sigmoid"),
        (SAANN(), "init", "data"),
        (ASCNN(), "solver", "lbfgs"),
        (ASCNN(), "sigma", 0),
        (Sparsenet(), "sigma", 0.0),
        (Sparsenet(), "penalty", "l2"),
        (Sparsenet(), "variance_goal", 0),
        (Sparsenet(), "variance_rate", 1.0),
        (Sparsenet(), "gain", -1),
        (Sparsenet(), "code_steps", 0),
        (Sparsenet(), "transform_max_iter", 0),
    ],
)
def test_bad_parameters_of_single_networks_are_named_in_the_error(
    network: Any, name: str, value: Any, digits: Any
) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        network.set_params(**{name: value}).fit(digits)


@every_network
def test_bad_data_and_missing_fit_raise_errors(network: Any, digits: Any) -> None:
    with pytest.raises(NotFittedError):
        clone(network).transform(digits)
    network = clone(network).fit(digits)
    with pytest.raises(ValueError, match="64 features"):
        network.transform(digits[:, :10])
    with pytest.raises(ValueError, match="12 columns, as returned by transform, got 3"):
        network.inverse_transform(np.ones((2, 3)))
    bad = digits.copy()
    bad[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        network.fit(bad)


@pytest.mark.parametrize("network", [SAANN, ASCNN], ids=lambda n: n.__name__)
def test_linear_networks_without_penalty_approach_pca(network: Any, patches: Any) -> None:
    linear = network(10, 0.0, activation="linear", max_iter=50, random_state=0).fit(patches)
    pca = PCA(10).fit(patches)
    best = rms_error(patches, pca.inverse_transform(pca.transform(patches)))
    assert best <= rms_error(patches, linear.reconstruct(patches)) < 1.05 * best


def test_the_stages_of_ascnn(digits: Any) -> None:
    ascnn = ASCNN(12, 0.01, max_iter=20, random_state=0).fit(digits)
    first_stage = ascnn.first_stage_energy_path_
    assert first_stage[-1] < 0.7 * first_stage[0]
    assert ascnn.energy_path_[-1] < ascnn.energy_path_[0], "the third stage lowers the energy"
    assert_allclose(ascnn.transform(digits), np.tanh(digits @ ascnn.encoder_.T))


def test_gain_control_reaches_the_variance_goal_and_inexact_codes_raise_a_warning(
    patches: Any,
) -> None:
    X = patches * np.sqrt(0.1) / patches.std()
    net = Sparsenet(30, max_iter=40, code_steps=10, random_state=0).fit(X)
    assert_allclose(net.sigma_, np.sqrt(0.1))
    # Without gain control the median is 0.13.
    assert np.median(np.square(net.transform(X)).mean(axis=0)) == pytest.approx(0.1, rel=0.1)
    with pytest.warns(ConvergenceWarning, match="not within transform_tol"):
        net.set_params(transform_max_iter=1, transform_tol=1e-8).transform(X)


@pytest.mark.parametrize("init", ["scaled", "paper"])
def test_plain_gradient_steps(init: str, digits: Any) -> None:
    """One pass over one batch is the initial weights minus the mean gradient times the rate."""
    N = len(digits)
    saann = SAANN(5, 0.1, init=init, solver="sgd", batch_size=N, max_iter=1, random_state=0)
    start = clone(saann).set_params(learning_rate=0).fit(digits)
    if init == "paper":
        assert np.abs(start.encoder_).max() <= 1
        assert np.abs(start.components_).max() > 0.9
    D, C = start.components_, start.encoder_
    gradient = SAANNEnergy(0.1).gradient(digits, D, C)
    scale = root_mean_square(digits)
    saann.set_params(learning_rate=1e-6).fit(digits)
    assert_allclose(saann.components_ - D, -1e-6 * gradient.D / N, rtol=1e-5, atol=1e-15)
    assert_allclose(saann.encoder_ - C, -1e-6 * gradient.C / N / scale**4, rtol=1e-5, atol=1e-15)


@pytest.mark.parametrize("network", [SAANN, ASCNN], ids=lambda n: n.__name__)
def test_plain_gradient_steps_lower_the_energy_in_any_unit(network: Any, digits: Any) -> None:
    rate = 0.05 if network is SAANN else 0.005
    one = network(8, 0.1, solver="sgd", learning_rate=rate, max_iter=5, random_state=0)
    ten = clone(one).set_params(alpha=10.0)
    one.fit(digits)
    ten.fit(10 * digits)
    assert one.energy_path_[-1] < one.energy_path_[0]
    if network is ASCNN:
        assert one.first_stage_energy_path_[-1] < 0.9 * one.first_stage_energy_path_[0]
    assert_allclose(ten.components_, 10 * one.components_, rtol=1e-6, atol=1e-9)
    assert_allclose(ten.encoder_, one.encoder_ / 10, rtol=1e-6, atol=1e-9)


def test_failed_training_raises_a_warning(digits: Any) -> None:
    with pytest.warns(
        ConvergenceWarning, match="every pass ended with a higher energy .* lower learning_rate=10"
    ):
        SAANN(5, activation="linear", learning_rate=10, max_iter=3, random_state=0).fit(digits)


@every_network
def test_data_out_of_range_raise_an_error_with_a_remedy(network: Any, digits: Any) -> None:
    with pytest.raises(ValueError, match=r"Divide X by 1e\+160 and alpha by its square"):
        clone(network).fit(1e160 * digits)


@every_network
def test_numpy_numbers_and_python_numbers_give_identical_weights(network: Any, digits: Any) -> None:
    X = digits.astype(np.float32)
    plain = clone(network).fit(X)
    rate = np.float64(network.learning_rate)
    other = clone(network).set_params(learning_rate=rate, max_iter=np.int64(network.max_iter))
    assert_array_equal(plain.components_, other.fit(X).components_)


def test_sparsenet_codes_do_not_depend_on_the_other_samples(digits: Any) -> None:
    net = Sparsenet(80, 0.05, max_iter=2, random_state=0).fit(digits)
    together = net.transform(digits[:40])
    alone = np.vstack([net.transform(digits[i : i + 1]) for i in range(40)])
    assert_allclose(together, alone, atol=1e-8 * np.abs(alone).max())


def test_sparsenet_parameters_follow_the_data_and_warm_start_keeps_variances(digits: Any) -> None:
    net = Sparsenet(12, max_iter=3, random_state=0, warm_start=True).fit(digits)
    assert_allclose(net.alpha_, 0.22 * np.square(digits).mean())
    assert_allclose(net.sigma_, np.sqrt(np.square(digits).mean()))
    before = net.variance_.copy()
    net.set_params(max_iter=1, gain=0.0, variance_rate=0.0).fit(digits)
    assert_array_equal(net.variance_, before)


def test_batches_have_similar_sizes(digits: Any, monkeypatch: Any) -> None:
    sizes: list[int] = []
    update_weights = SparsenetTraining.update_weights

    def record_size(self: Any, rows: Any, rate: float) -> None:
        sizes.append(len(rows))
        update_weights(self, rows, rate)

    monkeypatch.setattr(SparsenetTraining, "update_weights", record_size)
    Sparsenet(5, max_iter=1, batch_size=100, random_state=0).fit(digits[:201])
    assert sizes == [67, 67, 67]
