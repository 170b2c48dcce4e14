"""Tensors of PyTorch, and the encoder as a module. These tests run where torch is installed."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lincode import ASCNN, SAANN, SCNN, SCNNCV, SparseCoder, Sparsenet
from lincode.estimators import array_api
from lincode.exceptions import InvalidInputError

torch = pytest.importorskip("torch")

M = 12


@pytest.fixture(scope="module")
def networks(digits: Any) -> dict[Any, Any]:
    found: dict[Any, Any] = {
        (mode, positive): SCNN(
            M, 0.1, threshold_mode=mode, positive_code=positive, random_state=0, tol=1e-1
        ).fit(digits)
        for mode in ("soft", "hard", "top_k")
        for positive in (False, True)
    }
    for mode in ("soft", "hard", "top_k"):
        found[mode, "split"] = copy.deepcopy(found[mode, False]).set_params(split_sign=True)
    found["refined"] = copy.deepcopy(found["hard", False]).set_params(refine_max_iter=2)
    found["refined"].calibrate(digits)
    found["cv"] = SCNNCV(
        SCNN(M, random_state=0, tol=1e-1), alphas=[0.1, 0.2], cv=2, criterion="energy"
    ).fit(digits)
    found["sigmoid"] = SAANN(M, max_iter=2, random_state=0).fit(digits)
    found["linear"] = SAANN(M, activation="linear", max_iter=2, random_state=0).fit(digits)
    found["tanh"] = ASCNN(M, max_iter=2, random_state=0).fit(digits)
    found["coder"] = SparseCoder(digits[:M], transform_algorithm="threshold", transform_alpha=2.0)
    return found


def test_the_module_computes_the_codes_of_transform(networks: Any, digits: Any) -> None:
    X = digits[:50]
    for network in networks.values():
        module = network.encoder_module()
        codes = module(torch.tensor(X))
        assert_allclose(codes.detach().numpy(), network.transform(X), atol=1e-12)
        samples = module.decode(codes).detach().numpy()
        assert_allclose(samples, network.inverse_transform(network.transform(X)), atol=1e-12)
        reconstructed = module.reconstruct(torch.tensor(X)).detach().numpy()
        assert_allclose(reconstructed, network.reconstruct(X), atol=1e-12)
        single = module.float()(torch.tensor(X, dtype=torch.float32))
        assert single.dtype == torch.float32
        deeper = module(torch.tensor(X, dtype=torch.float32).reshape(5, 10, -1))
        assert_array_equal(deeper.detach().reshape(50, -1), single.detach())


def test_gradients(networks: Any, digits: Any) -> None:
    for network in networks.values():
        module = network.encoder_module()
        X = torch.tensor(digits[:3], requires_grad=True)
        loss = (module.reconstruct(X) - X).square().sum() + module(X).abs().sum()
        loss.backward()
        for parameter in (X, *module.parameters()):
            assert parameter.grad is not None
            assert parameter.grad.abs().sum() > 0
        # A difference along a direction, so small that no entry crosses its threshold.
        direction = torch.randn(module.encoder.shape, dtype=torch.float64, generator=seeded())
        step = 1e-8
        losses = []
        for sign in (1, -1):
            other = network.encoder_module()
            with torch.no_grad():
                other.encoder += sign * step * direction
                value = (other.reconstruct(X) - X).square().sum() + other(X).abs().sum()
            losses.append(value.item())
        slope = (module.encoder.grad * direction).sum().item()
        assert_allclose((losses[0] - losses[1]) / (2 * step), slope, rtol=1e-4, atol=1e-4)


def seeded() -> Any:
    return torch.Generator().manual_seed(0)


def test_training_the_module_does_not_change_the_network(networks: Any, digits: Any) -> None:
    network = networks["hard", False]
    before = network.transform(digits[:20])
    module = network.encoder_module()
    X = torch.tensor(digits)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    errors = []
    for _ in range(20):
        optimizer.zero_grad()
        error = (module.reconstruct(X) - X).square().mean()
        error.backward()
        optimizer.step()
        errors.append(error.item())
    assert errors[-1] < errors[0]
    assert_array_equal(network.transform(digits[:20]), before)


def test_state_and_composition(networks: Any, digits: Any) -> None:
    module = networks["hard", False].encoder_module()
    other = networks["hard", False].encoder_module()
    with torch.no_grad():
        other.encoder.zero_()
    other.load_state_dict(module.state_dict())
    X = torch.tensor(digits[:5])
    assert torch.equal(other(X), module(X))
    model = torch.nn.Sequential(module, torch.nn.Linear(M, 3).double())
    assert model(X).shape == (5, 3)
    assert "12 components" in repr(module)


def test_missing_entries_are_not_silent(networks: Any, digits: Any) -> None:
    X = torch.tensor(digits[:3])
    X[1, 5] = float("nan")
    for network in networks.values():
        codes = network.encoder_module()(X)
        assert codes.isnan().any(dim=1).tolist() == [False, True, False]
        assert codes[1].isnan().all()


def test_refusals(networks: Any, digits: Any) -> None:
    lasso = copy.deepcopy(networks["hard", False]).set_params(transform_algorithm="lasso")
    with pytest.raises(InvalidInputError, match="only transform_algorithm='encoder'"):
        lasso.encoder_module()
    with pytest.raises(InvalidInputError, match="not one matrix product"):
        Sparsenet(4, max_iter=2, random_state=0).fit(digits).encoder_module()


def test_tensors_without_dispatch(networks: Any, digits: Any) -> None:
    network, X = networks["hard", False], torch.tensor(digits[:20])
    codes = network.transform(X)
    assert isinstance(codes, np.ndarray)
    assert_array_equal(codes, network.transform(digits[:20]))
    with pytest.raises(InvalidInputError, match="detach"):
        network.transform(X.requires_grad_())


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_tensors_with_dispatch(
    networks: Any, digits: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("array_api_compat")
    monkeypatch.setattr(array_api, "get_config", lambda: {"array_api_dispatch": True})
    X = digits[:20].astype(name)
    for network in networks.values():
        for given in (torch.tensor(X), torch.tensor(X, requires_grad=True)):
            codes = network.transform(given)
            samples = network.inverse_transform(codes)
            for result in (codes, samples, network.reconstruct(given)):
                assert isinstance(result, torch.Tensor)
                assert result.dtype == given.dtype
                assert result.device == given.device
                assert not result.requires_grad
            assert_array_equal(codes.numpy(), network.transform(X))
    half = torch.tensor(X).to(torch.bfloat16)
    assert networks["hard", False].transform(half).dtype == torch.float64
    # The computation on other devices, on the CPU.
    monkeypatch.setattr(array_api.ForeignArray, "on_cpu", False)
    for network in networks.values():
        codes = network.transform(torch.tensor(X))
        assert isinstance(codes, torch.Tensor)
        assert_allclose(codes.numpy(), network.transform(X), atol=1e-5)
