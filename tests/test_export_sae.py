"""Networks in the formats of SAELens and sparsify, read by these libraries if they are installed.

They need torch, so that they have an environment of their own: pip install sae-lens eai-sparsify.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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


@pytest.mark.filterwarnings("ignore")  # those of the other libraries
@pytest.mark.parametrize(("form", "parameters"), CASES)
def test_the_libraries_compute_the_same_codes(form: str, parameters: Any, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    library = pytest.importorskip({"saelens": "sae_lens"}.get(form, form))
    pipeline = fitted(**parameters).fit(X)
    export_sae(pipeline, tmp_path, format=form)
    codes = pipeline.transform(X)
    with torch.no_grad():
        if form == "saelens":
            sae = library.SAE.load_from_disk(str(tmp_path))
            theirs = sae.encode(torch.tensor(X))
            decoded = sae.decode(theirs)
        else:
            sae = library.SparseCoder.load_from_disk(tmp_path)
            values, units, _ = sae.encode(torch.tensor(X))
            theirs = torch.zeros(len(X), sae.num_latents).scatter(1, units, values)
            decoded = sae.decode(values, units)
    assert_array_equal(theirs.numpy() != 0, codes != 0)
    assert_allclose(theirs.numpy(), codes, atol=1e-5)
    assert_allclose(decoded.numpy(), pipeline.inverse_transform(codes), atol=1e-5)


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
    with pytest.raises(InvalidInputError, match="cannot express: normalize_activations"):
        load_sae(tmp_path)
