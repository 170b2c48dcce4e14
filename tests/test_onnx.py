"""ONNX models compute the codes of transform, alone and in pipelines."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lincode
from lincode import ASCNN, SAANN, SCNN, SCNNCV, MiniBatchSCNN, SparseCoder, Sparsenet
from lincode.estimators.exported_layers import exported_layers
from lincode.exceptions import InvalidInputError

pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")
TensorProto = pytest.importorskip("onnx").TensorProto

M = 24
DTYPES = (np.float32, np.float64)


@pytest.fixture(scope="module")
def networks(digits: Any) -> dict[Any, SCNN]:
    return {
        (mode, positive): SCNN(
            M, 0.1, threshold_mode=mode, positive_code=positive, random_state=0, tol=1e-1
        ).fit(digits)
        for mode in ("soft", "hard", "top_k")
        for positive in (False, True)
    }


def changed(network: Any, **parameters: Any) -> Any:
    return copy.deepcopy(network).set_params(**parameters)


def run(onnx_model: Any, X: Any, name: str = "X") -> Any:
    """Return the first output for an array."""
    session = onnxruntime.InferenceSession(
        onnx_model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {name: X})[0]


def near_threshold(model: Any, X: Any) -> Any:
    """Return which codes may differ by more than rounding: outputs next to the threshold.

    The rounding error of a product is at most p eps Σ |x c|.
    """
    layers, X = exported_layers(model), np.asarray(X)
    rule, C = layers.thresholding, layers.C.astype(np.float64)
    Z = X.astype(np.float64) @ C.T
    error = 2 * C.shape[1] * np.finfo(X.dtype).eps * (np.abs(X) @ np.abs(C).T)
    if rule is None or rule.mode == "soft":  # these are continuous
        return np.zeros(Z.shape, bool)
    magnitude = np.maximum(Z, 0) if rule.positive else np.abs(Z)
    if rule.mode == "hard":
        return np.abs(magnitude - rule.threshold) <= error
    ordered = -np.sort(-magnitude, axis=1)
    last, next_one = ordered[:, rule.k - 1, None], ordered[:, rule.k, None]
    return (last - next_one <= error) & (np.abs(magnitude - last) <= error)


def assert_same_codes(model: Any, X: Any, codes: Any) -> None:
    """Check codes to 1e-6 of their scale, apart from entries within rounding of the threshold."""
    expected = model.transform(X)
    expected = expected.toarray() if scipy.sparse.issparse(expected) else expected
    assert codes.shape == expected.shape
    assert codes.dtype == expected.dtype
    near = near_threshold(model, X)
    near = np.hstack([near, near]) if exported_layers(model).split_sign else near
    assert near.mean() < 0.01
    scale = np.abs(expected).max()
    assert scale > 0
    assert_allclose(codes[~near], expected[~near], rtol=0, atol=1e-6 * max(scale, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("mode", ["soft", "hard", "top_k"])
def test_codes_of_all_thresholds(
    networks: Any, digits: Any, mode: str, positive: bool, dtype: Any
) -> None:
    X = digits[:150].astype(dtype)
    for gains in (True, False):
        for split in (False,) if positive else (False, True):
            model = changed(networks[mode, positive], fit_gains=gains, split_sign=split)
            codes = run(lincode.to_onnx(model, X), X)
            assert_same_codes(model, X, codes)
            assert 0 < (codes == 0).mean() < 1
    assert len(run(lincode.to_onnx(model, X), X[:1])) == 1  # the number of samples is not fixed


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["hard", "top_k"])
def test_refined_encoder_and_decoder(networks: Any, digits: Any, mode: str, dtype: Any) -> None:
    X = digits[:150].astype(dtype)
    for parameters in ({"refine_max_iter": 3}, {"fit_decoder": True}):
        for split in (False, True):
            model = changed(networks[mode, False], split_sign=split, **parameters)
            model.calibrate(digits)
            assert_same_codes(model, X, run(lincode.to_onnx(model, X), X))
            codes = model.transform(X)
            decoder = lincode.to_onnx(model, X, method="inverse_transform")
            samples = run(decoder, codes, "codes")
            assert samples.dtype == dtype
            assert_allclose(samples, model.inverse_transform(codes), atol=2e-6)
            both = lincode.to_onnx(model, X, method="reconstruct")
            is_clear = ~near_threshold(model, X).any(axis=1)
            assert is_clear.mean() > 0.9
            assert_allclose(run(both, X)[is_clear], model.reconstruct(X)[is_clear], atol=2e-6)


def test_other_estimators(digits: Any) -> None:
    X = digits[:100]
    coder = SparseCoder(X[:10], transform_algorithm="threshold", transform_alpha=5.0)
    estimators = [
        MiniBatchSCNN(M, 0.1, random_state=0).fit(digits),
        SCNNCV(SCNN(M, random_state=0, tol=1e-1), alphas=[0.1, 0.2], cv=2, criterion="energy").fit(
            digits
        ),
        SAANN(8, max_iter=2, random_state=0).fit(digits),
        SAANN(8, activation="linear", max_iter=2, random_state=0).fit(digits),
        ASCNN(8, max_iter=2, random_state=0).fit(digits),
        coder,
        changed(coder, positive_code=True, split_sign=True),
    ]
    for model in estimators:
        assert_same_codes(model, X, run(lincode.to_onnx(model), X))


@pytest.mark.parametrize("dtype", DTYPES)
def test_pipelines(digits: Any, dtype: Any) -> None:
    X, y = digits.astype(dtype), np.arange(len(digits)) % 3
    model = make_pipeline(
        StandardScaler(),
        SCNN(M, random_state=0, tol=1e-1),
        LogisticRegression(max_iter=200, C=0.1),
    ).fit(X, y)
    onnx_model = lincode.to_onnx(model, X, options={"zipmap": False})
    session = onnxruntime.InferenceSession(
        onnx_model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    labels, probabilities = session.run(None, {"X": X[:100]})
    expected = model.predict_proba(X[:100])
    is_clear = ~near_threshold(model[1], model[0].transform(X[:100])).any(axis=1)
    assert is_clear.mean() > 0.9
    assert_allclose(probabilities[is_clear], expected[is_clear], atol=1e-5)
    assert (labels == model.predict(X[:100])).mean() > 0.95


def test_classifiers_with_double_input(digits: Any) -> None:
    X, y = digits[:200, :20], np.arange(200) % 3
    frame = pd.DataFrame(X, columns=[f"p{i}" for i in range(20)])
    codes = SCNN(8, random_state=0, tol=1e-1)
    columns = ColumnTransformer(
        [("codes", codes, list(frame)[1:]), ("first", "passthrough", ["p0"])]
    )
    model = make_pipeline(codes, LogisticRegression()).fit(X, y)
    of_columns = make_pipeline(columns, LogisticRegression()).fit(frame, y)
    for pipeline, samples, dtype in (
        (model, X, None),
        (model, None, np.float64),
        (of_columns, frame, None),
    ):
        converted = lincode.to_onnx(pipeline, samples, dtype=dtype)
        session = onnxruntime.InferenceSession(
            converted.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        inputs = {name: frame[[name]].to_numpy() for name in frame}
        labels, probabilities = session.run(None, {"X": X} if pipeline is model else inputs)
        given = X if pipeline is model else frame
        assert_allclose(probabilities, pipeline.predict_proba(given), rtol=1e-6)
        assert_array_equal(labels, pipeline.predict(given))
    nodes = lincode.to_onnx(model, X.astype(np.float32)).graph.node
    assert "ZipMap" in [node.op_type for node in nodes]  # the option is not needed for float32
    for options in ({"zipmap": True}, {"raw_scores": True}):
        with pytest.raises(InvalidInputError, match="add 'zipmap': False to options"):
            lincode.to_onnx(model, X, options=options)
    with pytest.raises(InvalidInputError, match="convert all columns of X to float32"):
        lincode.to_onnx(of_columns, frame.astype({"p1": np.float32}))


def test_column_transformer_with_a_data_frame(digits: Any) -> None:
    frame = pd.DataFrame(digits[:, :20].astype(np.float32), columns=[f"p{i}" for i in range(20)])
    frame["other"] = np.arange(len(frame), dtype=np.float32)
    codes = make_pipeline(StandardScaler(), SCNN(8, random_state=0, tol=1e-1))
    columns = [f"p{i}" for i in range(20)]
    model = ColumnTransformer([("codes", codes, columns), ("rest", "passthrough", ["other"])])
    model.fit(frame)
    onnx_model = lincode.to_onnx(model, frame)
    session = onnxruntime.InferenceSession(
        onnx_model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    inputs = {name: frame[[name]].to_numpy() for name in frame}
    assert_allclose(session.run(None, inputs)[0], model.transform(frame), atol=1e-5)
    alone = SCNN(8, random_state=0, tol=1e-1).fit(frame[columns])
    samples = frame[columns]
    assert_same_codes(alone, samples, run(lincode.to_onnx(alone, samples), samples.to_numpy()))


def test_types_and_names(networks: Any, digits: Any) -> None:
    model = networks["hard", False]
    kinds = {
        None: "tensor(double)",
        np.float32: "tensor(float)",
    }
    for dtype, kind in kinds.items():
        onnx_model = lincode.to_onnx(model, dtype=dtype, target_opset=15)
        session = onnxruntime.InferenceSession(
            onnx_model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        (source,), (target,) = session.get_inputs(), session.get_outputs()
        assert (source.name, source.type, source.shape[1]) == ("X", kind, 64)
        assert (target.name, target.type, target.shape[1]) == ("codes", kind, M)
        assert not isinstance(source.shape[0], int)
        assert onnx_model.opset_import[0].version == 15


@pytest.mark.parametrize("dtype", DTYPES)
def test_type_of_sparse_samples(networks: Any, digits: Any, dtype: Any) -> None:
    model, X = networks["hard", False], digits[:20].astype(dtype)
    for samples in (
        scipy.sparse.csr_matrix(X),
        scipy.sparse.csr_array(X),
        scipy.sparse.coo_array(X),
    ):
        for estimator in (model, make_pipeline(model)):
            codes = run(lincode.to_onnx(estimator, samples), X)
            assert_same_codes(model, X, codes)  # of the same dtype


def test_missing_entries_are_not_silent(networks: Any, digits: Any) -> None:
    X = digits[:3].copy()
    X[1, 5] = np.nan
    for (_, positive), network in networks.items():
        for split in (False,) if positive else (False, True):
            codes = run(lincode.to_onnx(changed(network, split_sign=split)), X)
            assert_array_equal(np.isnan(codes).all(axis=1), [False, True, False])
            assert_array_equal(np.isnan(codes).any(axis=1), [False, True, False])


def test_refusals(networks: Any, digits: Any) -> None:
    model = networks["hard", False]
    lasso = changed(model, transform_algorithm="lasso")
    scaled = make_pipeline(StandardScaler(), lasso)
    scaled[0].fit(digits)
    sparsenet = Sparsenet(4, max_iter=2, random_state=0).fit(digits)
    for other in (lasso, scaled):
        with pytest.raises(InvalidInputError, match="only transform_algorithm='encoder'"):
            lincode.to_onnx(other)
    for other in (sparsenet, make_pipeline(sparsenet)):
        with pytest.raises(InvalidInputError, match="Sparsenet are not one matrix product"):
            lincode.to_onnx(other)
    with pytest.raises(InvalidInputError, match="only transform_algorithm='threshold'"):
        lincode.to_onnx(SparseCoder(digits[:5]))
    with pytest.raises(NotFittedError):
        lincode.to_onnx(SCNN())
    with pytest.raises(InvalidInputError, match="method must be one of"):
        lincode.to_onnx(model, method="score")
    with pytest.raises(InvalidInputError, match="for estimators of lincode only"):
        lincode.to_onnx(make_pipeline(model), method="reconstruct")
    with pytest.raises(InvalidInputError, match="target_opset must be at least 13"):
        lincode.to_onnx(model, target_opset=11)
    with pytest.raises(InvalidInputError, match="dtype must be float32 or float64"):
        lincode.to_onnx(model, dtype=np.int64)
    with pytest.raises(InvalidInputError, match="model must be a fitted estimator"):
        lincode.to_onnx("model")
    for path in ("model.onnx", Path("model.onnx")):
        for other in (model, make_pipeline(model)):
            with pytest.raises(InvalidInputError, match=r"X must be samples .* SerializeToString"):
                lincode.to_onnx(other, path)


def test_bad_arguments_are_refused(networks: Any, digits: Any) -> None:
    model = networks["hard", False]
    pipeline = make_pipeline(StandardScaler(), model)
    pipeline[0].fit(digits)
    cases: list[tuple[Any, str]] = [
        ("x", "None, an integer or a dict of integers, got 'x'"),
        (17.0, "None, an integer"),
        (True, "None, an integer"),
        ({"": "x"}, "None, an integer"),
        (999, "at least 13 and at most .* got 999"),
        ({"": 999}, "at least 13 and at most .* got 999"),
    ]
    for version, message in cases:
        with pytest.raises(InvalidInputError, match=f"target_opset must be {message}"):
            lincode.to_onnx(model, target_opset=version)
    for dtype in ("abc", 999):
        for estimator in (model, pipeline):
            with pytest.raises(InvalidInputError, match="dtype must be float32 or float64, got"):
                lincode.to_onnx(estimator, dtype=dtype)
    for X in (digits[:, :3], digits[0], pd.DataFrame(digits[:, :3]), digits[:, :3].tolist()):
        with pytest.raises(InvalidInputError, match="X must have two dimensions and 64 columns"):
            lincode.to_onnx(model, X)
    with pytest.raises(InvalidInputError, match="X must have two dimensions and 64 columns"):
        lincode.to_onnx(pipeline, digits[:, :3])


def test_options_that_skl2onnx_does_not_have(networks: Any, digits: Any) -> None:
    model = networks["hard", False]
    classifier = make_pipeline(model, LogisticRegression())
    classifier[-1].fit(model.transform(digits), np.arange(len(digits)) % 2)
    for estimator in (model, classifier):
        for options in ({"foo": 1}, {"foo__bar": 1}):
            with pytest.raises(InvalidInputError, match=r"with options=\{.* remove or correct the"):
                lincode.to_onnx(estimator, options=options)
        with pytest.raises(InvalidInputError, match=r"options must be a dict .* got 'zipmap'"):
            lincode.to_onnx(estimator, options="zipmap")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="Unexpected value"):
        lincode.to_onnx(classifier, options={"zipmap": 5})
    voting = VotingClassifier([("logistic", LogisticRegression())], flatten_transform=True)
    voting.fit(digits, np.arange(len(digits)) % 2)
    with pytest.raises(InvalidInputError, match="cannot convert a step of the model: flatten"):
        lincode.to_onnx(voting)


def test_pipelines_of_texts_need_samples() -> None:
    texts = ["red green blue", "blue sky sun", "sun sea sky red", "sea fish red"] * 5
    model = make_pipeline(TfidfVectorizer(), SCNN(4, random_state=0, tol=1e-1)).fit(texts)
    with pytest.raises(InvalidInputError, match="X must be some samples, because this Pipeline"):
        lincode.to_onnx(model)
    (source,) = lincode.to_onnx(model, texts).graph.input
    assert source.type.tensor_type.elem_type == TensorProto.STRING


@pytest.mark.parametrize("split", [False, True])
def test_decoders_accept_codes_or_samples(networks: Any, digits: Any, split: bool) -> None:
    model = changed(networks["hard", False], split_sign=split)
    for dtype in DTYPES:
        X = digits[:20].astype(dtype)
        codes = model.transform(X)
        for given in (codes, X, scipy.sparse.csr_array(codes)):
            decoder = lincode.to_onnx(model, given, method="inverse_transform")
            samples = run(decoder, codes, "codes")
            assert_allclose(samples, model.inverse_transform(codes), atol=2e-6)
    n_codes = codes.shape[1]
    message = f"{n_codes} columns if it contains codes and 64 if it contains samples, got shape"
    with pytest.raises(InvalidInputError, match=message):
        lincode.to_onnx(model, digits[:, :3], method="inverse_transform")
    with pytest.raises(InvalidInputError, match="64 columns, as many as the input of the model"):
        lincode.to_onnx(model, codes, method="reconstruct")


def test_versions_of_some_operators_can_be_given(networks: Any, digits: Any) -> None:
    model = networks["hard", False]
    for version in (np.int64(17), {"": 17}, {"ai.onnx.ml": 3}):
        onnx_model = lincode.to_onnx(model, target_opset=version)  # type: ignore[arg-type]
        assert_allclose(run(onnx_model, digits[:5]), model.transform(digits[:5]), atol=1e-12)


def test_the_type_of_integers(networks: Any, digits: Any) -> None:
    X, model = np.rint(16 * digits[:5]).astype(np.int64), networks["hard", False]
    onnx_model = lincode.to_onnx(model, X)
    assert_allclose(run(onnx_model, X.astype(np.float64)), model.transform(X), atol=1e-12)
    codes = run(lincode.to_onnx(make_pipeline(model), X), X)
    assert codes.dtype == np.float32
    assert_allclose(codes, model.transform(X), rtol=1e-4, atol=1e-4)
