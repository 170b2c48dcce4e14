"""ONNX models compute the codes of transform, alone and in pipelines."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lincode
from lincode import SCNN, MiniBatchSCNN, SparseCoder
from lincode.exceptions import InvalidInputError

pytest.importorskip("skl2onnx")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

M = 24
MODES: dict[str, dict[str, Any]] = {
    "soft": {"refine": False, "transform_algorithm": "paper", "alpha": 0.1},
    "hard": {},
    "top_k": {"density": 4},
}
"""The parameters that lead to each threshold."""
CASES = [(mode, positive) for mode in MODES for positive in (False, True)]


@pytest.fixture(scope="module")
def networks(digits: Any) -> dict[Any, SCNN]:
    return {
        (mode, positive): SCNN(
            M, **MODES[mode], positive_code=positive, random_state=0, tol=1e-1
        ).fit(digits)
        for mode, positive in CASES
    }


def session_of(onnx_model: Any) -> Any:
    return onnxruntime.InferenceSession(
        onnx_model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def run(onnx_model: Any, X: Any) -> Any:
    """Return the first output for samples."""
    return session_of(onnx_model).run(None, {"X": X})[0]


def assert_same_codes(codes: Any, expected: Any) -> None:
    """Check codes to 1e-6 of their scale, apart from few outputs next to the threshold."""
    assert codes.shape == expected.shape
    assert codes.dtype == expected.dtype
    assert 0 < (codes != 0).mean() < 1
    same = (codes != 0) == (expected != 0)
    assert same.mean() > (0.999 if codes.dtype == np.float32 else 1 - 1e-9)
    tol = 1e-6 * max(np.abs(expected).max(), 1)
    assert_allclose(codes[same], expected[same], rtol=0, atol=tol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("mode", "positive"), CASES)
def test_codes_of_all_thresholds(
    networks: Any, digits: Any, mode: str, positive: bool, dtype: Any
) -> None:
    X = digits[:150].astype(dtype)
    model = copy.deepcopy(networks[mode, positive]).set_params(split_sign=not positive)
    onnx_model = lincode.to_onnx(model, X)
    assert_same_codes(run(onnx_model, X), model.transform(X))
    assert len(run(onnx_model, X[:1])) == 1  # the number of samples is not fixed


def test_other_estimators(digits: Any) -> None:
    for model in (
        MiniBatchSCNN(M, random_state=0).fit(digits),
        SparseCoder(digits[:10], transform_algorithm="threshold", transform_alpha=5.0),
    ):
        assert_same_codes(run(lincode.to_onnx(model), digits), model.transform(digits))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pipelines_with_a_classifier(digits: Any, dtype: Any) -> None:
    X, y = digits.astype(dtype), np.arange(len(digits)) % 3
    codes = SCNN(M, refine=False, transform_algorithm="paper", random_state=0)
    model = make_pipeline(StandardScaler(), codes, LogisticRegression(C=0.1)).fit(X, y)
    labels, probabilities = session_of(lincode.to_onnx(model, X)).run(None, {"X": X})
    assert_allclose(probabilities, model.predict_proba(X), atol=1e-5)
    assert (labels == model.predict(X)).mean() > 0.99


def test_column_transformers_with_a_data_frame(digits: Any) -> None:
    columns = [f"p{i}" for i in range(20)]
    frame = pd.DataFrame(digits[:, :20].astype(np.float32), columns=columns)
    frame["other"] = np.arange(len(frame), dtype=np.float32)
    codes = make_pipeline(StandardScaler(), SCNN(8, random_state=0))
    model = ColumnTransformer([("codes", codes, columns), ("rest", "passthrough", ["other"])])
    model.fit(frame)
    inputs = {name: frame[[name]].to_numpy() for name in frame}
    result = session_of(lincode.to_onnx(model, frame)).run(None, inputs)[0]
    assert_allclose(result, model.transform(frame), atol=1e-5)


def test_the_input_has_the_type_of_the_samples_or_the_weights(networks: Any, digits: Any) -> None:
    model, single = networks["hard", False], digits[:5].astype(np.float32)
    for X, kind in [
        (None, "tensor(double)"),
        (single, "tensor(float)"),
        (scipy.sparse.csr_array(single), "tensor(float)"),
        (pd.DataFrame(single), "tensor(float)"),
        (digits[:5].tolist(), "tensor(double)"),
        (np.ones((5, 64), int), "tensor(double)"),
    ]:
        onnx_model = lincode.to_onnx(model, X, target_opset=15)
        session = session_of(onnx_model)
        (source,), (target,) = session.get_inputs(), session.get_outputs()
        assert (source.name, source.type, source.shape[1]) == ("X", kind, 64)
        assert (target.name, target.type, target.shape[1]) == ("codes", kind, M)
        assert onnx_model.opset_import[0].version == 15
    pipeline = make_pipeline(model)
    for X in (None, single, scipy.sparse.csr_array(single)):
        assert_same_codes(run(lincode.to_onnx(pipeline, X), single), model.transform(single))


def test_pipelines_of_texts() -> None:
    texts = ["red green blue", "blue sky sun", "sun sea sky red", "sea fish red"] * 5
    model = make_pipeline(TfidfVectorizer(), SCNN(4, random_state=0)).fit(texts)
    (source,) = lincode.to_onnx(model, texts).graph.input
    assert source.type.tensor_type.elem_type == onnx.TensorProto.STRING


def test_missing_entries_are_not_silent(networks: Any, digits: Any) -> None:
    X = digits[:3].copy()
    X[1, 5] = np.nan
    for (_, positive), network in networks.items():
        model = copy.deepcopy(network).set_params(split_sign=not positive)
        codes = run(lincode.to_onnx(model), X)
        assert_array_equal(np.isnan(codes).all(axis=1), [False, True, False])
        assert_array_equal(np.isnan(codes).any(axis=1), [False, True, False])


def test_codes_of_iterations_and_unfitted_networks_are_refused(networks: Any, digits: Any) -> None:
    lasso = copy.deepcopy(networks["hard", False]).set_params(transform_algorithm="lasso")
    for model in (lasso, make_pipeline(StandardScaler().fit(digits), lasso)):
        with pytest.raises(
            InvalidInputError, match="transform_algorithm of SCNN must be 'encoder'"
        ):
            lincode.to_onnx(model)
    with pytest.raises(InvalidInputError, match="of SparseCoder must be 'threshold'"):
        lincode.to_onnx(SparseCoder(digits[:5]))
    with pytest.raises(NotFittedError):
        lincode.to_onnx(SCNN())
