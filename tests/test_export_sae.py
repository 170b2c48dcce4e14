"""Networks in the formats of SAELens and sparsify, read by these libraries if they are installed.

They need torch, so that they have an environment of their own: pip install sae-lens eai-sparsify.
"""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lincode
from lincode import SCNN, export_sae, load_sae
from lincode.exceptions import InvalidInputError

X = np.random.default_rng(0).laplace(size=(300, 12)).astype(np.float32) + np.float32(0.5)
CASES: list[tuple[str, dict[str, Any]]] = [
    ("saelens", {"density": 3}),
    ("saelens", {"density": 3, "positive_code": True}),
    ("saelens", {"density": 0.2, "positive_code": True}),
    ("saelens", {"density": 0.2, "split_sign": True}),
    ("sparsify", {"density": 3, "positive_code": True}),
    ("sparsify", {"density": 3, "split_sign": True}),
]


def fitted(**parameters: Any) -> Any:
    network = SCNN(20, refine=False, random_state=0, **parameters)
    return make_pipeline(StandardScaler(with_std=False), network)


@pytest.mark.parametrize(("form", "parameters"), CASES)
def test_exported_network_is_loaded(form: str, parameters: Any, tmp_path: Path) -> None:
    pipeline = fitted(**parameters).fit(X)
    codes, back = pipeline.transform(X), pipeline.inverse_transform(pipeline.transform(X))
    export_sae(pipeline, tmp_path, format=form)
    loaded = load_sae(tmp_path)
    assert_allclose(loaded.transform(X), codes, atol=1e-5)
    assert_allclose(loaded.inverse_transform(codes), back, atol=1e-5)
    assert loaded[-1].score(X) < 1


def of_the_library(form: str, folder: Path) -> tuple[Any, Any]:
    """Return the codes and reconstructions of X by the library that has the format."""
    torch = pytest.importorskip("torch")
    library = pytest.importorskip({"saelens": "sae_lens"}.get(form, form))
    with torch.no_grad():
        if form == "saelens":
            sae = library.SAE.load_from_disk(str(folder))
            codes = sae.encode(torch.tensor(X))
            return codes.numpy(), sae.decode(codes).numpy()
        sae = library.SparseCoder.load_from_disk(folder)
        values, units, _ = sae.encode(torch.tensor(X))
        codes = torch.zeros(len(X), sae.num_latents).scatter(1, units, values)
        return codes.numpy(), sae.decode(values, units).numpy()


@pytest.mark.filterwarnings("ignore")  # those of the other libraries
@pytest.mark.parametrize(("form", "parameters"), CASES)
def test_the_libraries_compute_the_same_codes(form: str, parameters: Any, tmp_path: Path) -> None:
    pipeline = fitted(**parameters).fit(X)
    export_sae(pipeline, tmp_path, format=form)
    codes = pipeline.transform(X)
    theirs, decoded = of_the_library(form, tmp_path)
    assert_array_equal(theirs != 0, codes != 0)
    assert_allclose(theirs, codes, atol=1e-5)
    assert_allclose(decoded, pipeline.inverse_transform(codes), atol=1e-5)


OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("saelens", {"architecture": "standard"}),
    ("saelens", {"architecture": "topk", "k": 4, "rescale_acts_by_decoder_norm": True}),
    ("saelens", {"architecture": "abstopk", "k": 4}),
    ("saelens", {"architecture": "jumprelu"}),
    ("saelens", {"architecture": "jumprelu", "apply_b_dec_to_input": False}),
    ("sparsify", {"k": 4, "num_latents": 20}),
]
"""Autoencoders of other people: with a bias of the encoder and a threshold for each unit."""


def write_sae(form: str, config: Any, folder: Path) -> dict[str, Any]:
    """Write random weights, and return them."""
    save_file = pytest.importorskip("safetensors.numpy").save_file
    rng = np.random.default_rng(1)
    W = {"W_dec": rng.standard_normal((20, 12)), "b_dec": rng.standard_normal(12)}
    C, b = rng.standard_normal((20, 12)) / 3, rng.standard_normal(20)
    if form == "sparsify":
        W |= {"encoder.weight": C, "encoder.bias": b}
    else:
        W |= {"W_enc": np.ascontiguousarray(C.T), "b_enc": b}
        if config["architecture"] == "jumprelu":
            W["threshold"] = np.maximum(rng.standard_normal(20), 0)  # 0 for some units
    W = {name: A.astype(np.float32) for name, A in W.items()}
    save_file(W, folder / f"sae{'' if form == 'sparsify' else '_weights'}.safetensors")
    sizes = {"d_in": 12, "d_sae": 20, "dtype": "float32", "device": "cpu", "metadata": {}}
    (folder / "cfg.json").write_text(json.dumps(sizes | config))
    return W | {"C": C, "b": b}


@pytest.mark.parametrize(("form", "config"), OTHERS)
def test_autoencoders_of_others_are_loaded(form: str, config: Any, tmp_path: Path) -> None:
    W, k = write_sae(form, config, tmp_path), config.get("k")
    norms = np.linalg.norm(W["W_dec"], axis=1) if "rescale_acts_by_decoder_norm" in config else 1
    Z = (X - W["b_dec"] * config.get("apply_b_dec_to_input", True)) @ W["C"].T + W["b"]
    Z *= norms
    sizes = np.abs(Z) if config.get("architecture") == "abstopk" else np.maximum(Z, 0)
    least = np.sort(sizes)[:, -k - 1 : -k] if k else W.get("threshold", 0)
    codes = np.where(sizes > least, Z, 0)
    loaded = load_sae(tmp_path)
    found = loaded.transform(X)
    assert_array_equal(found != 0, codes != 0)
    assert_allclose(found, codes, atol=1e-5)
    reconstructed = (codes / norms) @ W["W_dec"] + W["b_dec"]
    assert_allclose(loaded.inverse_transform(codes), reconstructed, atol=1e-4)
    copied = pickle.loads(pickle.dumps(loaded))
    assert_array_equal(copied.transform(X), found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("form", "config"), OTHERS)
def test_the_libraries_agree_about_those_of_others(form: str, config: Any, tmp_path: Path) -> None:
    write_sae(form, config, tmp_path)
    theirs, decoded = of_the_library(form, tmp_path)
    loaded = load_sae(tmp_path)
    codes = loaded.transform(X)
    assert_array_equal(theirs != 0, codes != 0)
    assert_allclose(theirs, codes, atol=1e-5)
    assert_allclose(decoded, loaded.inverse_transform(codes), atol=1e-4)


def test_a_loaded_pipeline_is_saved(tmp_path: Path) -> None:
    pytest.importorskip("skops")
    write_sae(*OTHERS[3], tmp_path)
    loaded = load_sae(tmp_path)
    lincode.save(loaded, tmp_path / "sae.skops")
    again = lincode.load(tmp_path / "sae.skops")
    assert_array_equal(again.transform(X), loaded.transform(X))
    with pytest.raises(InvalidInputError, match="can be exported"):
        export_sae(loaded, tmp_path)


@pytest.mark.parametrize(
    ("form", "parameters", "advice"),
    [
        ("saelens", {"density": 0.2}, "split_sign"),
        ("sparsify", {"density": 0.2, "positive_code": True}, "integer density"),
        ("sparsify", {"density": 3}, "positive_code=True"),
        ("saelens", {"density": 3, "transform_algorithm": "projection"}, "encoder"),
        ("keras", {}, "saelens"),
    ],
)
def test_what_a_format_cannot_express(
    form: str, parameters: Any, advice: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=advice):
        export_sae(fitted(**parameters).fit(X), tmp_path, format=form)


def test_what_lincode_cannot_express(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="must contain"):
        load_sae(tmp_path)
    export_sae(fitted(density=3).fit(X), tmp_path)
    config = json.loads((tmp_path / "cfg.json").read_text())
    (tmp_path / "cfg.json").write_text(json.dumps(config | {"normalize_activations": "layer_norm"}))
    with pytest.raises(
        InvalidInputError, match="cannot express normalize_activations='layer_norm'"
    ):
        load_sae(tmp_path)
