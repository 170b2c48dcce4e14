"""Networks for other libraries: ONNX models, and sparse autoencoders of SAELens and sparsify."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.validation import check_is_fitted

from lincode.core.arrays import Array
from lincode.core.threshold import Thresholding
from lincode.estimators.base import BaseSCNN
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.scnn import SCNN
from lincode.estimators.sparse_encode import SparseCoder
from lincode.exceptions import InvalidInputError, MissingDependencyError

ENCODERS = (SCNN, MiniBatchSCNN, SparseCoder)
CONFIG = "cfg.json"
WEIGHTS = {"saelens": "sae_weights.safetensors", "sparsify": "sae.safetensors"}
SAELENS = {"dtype": "float32", "device": "cpu", "apply_b_dec_to_input": True}
SAELENS |= {"normalize_activations": "none", "metadata": {"sae_lens_version": "6.0.0"}}
SPARSIFY = {"activation": "topk", "normalize_decoder": False, "transcode": False}
ACCEPTED: dict[str, tuple[Any, ...]] = {
    "architecture": (None, "standard", "topk", "abstopk", "jumprelu"),
    "normalize_activations": (None, "none"),
    "reshape_activations": (None, "none"),
    "activation": (None, "topk"),
    "skip_connection": (None, False),
    "transcode": (None, False),
}
"""The values of options of these formats that ``load_sae`` accepts; None means not given."""
LEAST_THRESHOLD = 1e-12
"""It replaces thresholds of 0 if units have different thresholds, by which codes are divided."""


def to_onnx(
    model: Any,
    X: Any = None,
    *,
    target_opset: int | dict[str, int] | None = None,
    options: dict[Any, Any] | None = None,
) -> Any:
    """Convert a fitted estimator, or a pipeline that contains one, to an ONNX model.

    The encoder becomes one matrix product and a threshold, which onnxruntime and other runtimes
    compute without Python packages. The codes are those of ``transform``, except for rounding. They
    are dense, and NaN for a sample with a missing entry, which is not predicted.

    Parameters
    ----------
    model : estimator
        A fitted SCNN or MiniBatchSCNN with ``transform_algorithm="encoder"``, a SparseCoder with
        ``transform_algorithm="threshold"``, or a Pipeline, ColumnTransformer or other estimator of
        scikit-learn that contains some of these and that skl2onnx can convert.
    X : array, CSR matrix or data frame, default=None
        Some samples, from which the type of the input is taken: float32 or float64 and, for the
        data frame of a pipeline, one input per column. If it is None, the input has the type of the
        weights, or float32 for a pipeline. The number of samples is never fixed.
    target_opset : int or dict, default=None
        The version of the ONNX operators, at least 13. None means the latest one of skl2onnx.
    options : dict, default=None
        Options of skl2onnx. None means ``{"zipmap": False}`` for classifiers, with which the
        probabilities are an array and not a list of dictionaries.

    Returns
    -------
    onnx.ModelProto
        Its method ``SerializeToString`` returns the contents of an ONNX file. The input of an
        estimator of lincode is called "X" and the output "codes".

    Examples
    --------
    >>> import lincode
    >>> onnx_model = lincode.to_onnx(scnn)  # doctest: +SKIP
    >>> import onnxruntime  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession(onnx_model.SerializeToString())  # doctest: +SKIP
    >>> (codes,) = session.run(["codes"], {"X": X})  # doctest: +SKIP
    """
    try:
        import skl2onnx
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "conversion to ONNX needs skl2onnx; install it with: pip install 'lincode[onnx]'"
        ) from error
    for encoder in ENCODERS:  # calling it again has no further effect
        name = f"Lincode{encoder.__name__}"
        skl2onnx.update_registered_converter(encoder, name, _set_output_type, _convert)
    if hasattr(model, "to_local"):  # trained on a cluster
        model = model.to_local()
    check_is_fitted(model)
    arguments: dict[str, Any] = {"target_opset": target_opset, "options": options}
    if isinstance(model, ENCODERS):
        C, _, _ = _layers(model)
        like = C if X is None else X if hasattr(X, "dtype") else np.asarray(X)
        X = np.zeros((1, C.shape[1]), np.float32 if like.dtype == np.float32 else np.float64)
        arguments["final_types"] = [("codes", None)]
    elif X is None or issparse(X):
        like = np.zeros((1, model.n_features_in_), np.float32) if X is None else X
        X = np.zeros((1, like.shape[1]), like.dtype)
    elif not hasattr(X, "iloc"):
        X = np.asarray(X[:1])
    if options is None and is_classifier(model):
        arguments["options"] = {"zipmap": False}
    return skl2onnx.to_onnx(model, X[:1], **arguments)


def _layers(model: Any) -> tuple[Array, Thresholding, bool]:
    """Return C and f of the codes U = f(X Cᵀ), and whether their signs are split."""
    check_is_fitted(model)
    model._check_parameters()
    exported = ("threshold",) if isinstance(model, SparseCoder) else ("encoder", "paper")
    if model.transform_algorithm not in exported:
        raise InvalidInputError(
            f"transform_algorithm of {type(model).__name__} must be {exported[0]!r} for ONNX,"
            " because other codes are not one matrix product and a threshold; got"
            f" {model.transform_algorithm!r}. Use set_params(transform_algorithm={exported[0]!r})."
        )
    if not isinstance(model, SparseCoder):
        return model.encoder_, model._rule(), bool(model.split_sign)
    alpha = 1.0 if model.transform_alpha is None else float(model.transform_alpha)
    rule = Thresholding("soft", alpha, positive=bool(model.positive_code))
    return model.components_, rule, bool(model.split_sign)


def _set_output_type(operator: Any) -> None:
    """Set the type and the shape of the output. The number of rows is not fixed."""
    from skl2onnx.common.data_types import guess_tensor_type

    (C, _, split_sign), source = _layers(operator.raw_operator), operator.inputs[0]
    shape = [source.get_first_dimension(), len(C) * (1 + split_sign)]
    operator.outputs[0].type = type(guess_tensor_type(source.type))(shape)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of an encoder. Integers become float32."""
    from skl2onnx.algebra.onnx_ops import OnnxCast, OnnxConcat, OnnxGemm, OnnxIdentity
    from skl2onnx.common.data_types import guess_numpy_type, guess_proto_type, guess_tensor_type

    version = {"op_version": container.target_opset}
    kind = guess_tensor_type(operator.inputs[0].type)
    dtype, to = np.dtype(guess_numpy_type(kind)), guess_proto_type(kind)
    # The columns of a data frame are separate inputs.
    inputs = [OnnxCast(x, to=to, **version) for x in operator.inputs]
    X = inputs[0] if len(inputs) == 1 else OnnxConcat(*inputs, axis=1, **version)
    C, rule, split_sign = _layers(operator.raw_operator)
    Z = OnnxGemm(X, np.array(C, dtype, order="C"), transB=1, **version)
    codes = _codes(Z, rule, split_sign, dtype, version)
    output = OnnxIdentity(codes, output_names=operator.outputs[:1], **version)
    output.add_to(scope, container)


def _codes(Z: Any, rule: Thresholding, split_sign: bool, dtype: Any, version: Any) -> Any:
    """Return the nodes of the threshold. NaN in a sample leads to NaN in its code, not to zeros."""
    from skl2onnx.algebra import onnx_ops as ops

    def positive_part(U: Any) -> Any:
        return ops.OnnxWhere(ops.OnnxLess(U, zero, **version), zero, U, **version)

    zero = np.zeros(1, dtype)
    limit = np.array([min(rule.threshold, float(np.finfo(dtype).max))], dtype)
    if rule.mode == "soft" and rule.positive:
        U = ops.OnnxSub(Z, ops.OnnxMin(Z, limit, **version), **version)
    elif rule.mode == "soft":
        bounds = np.array(-limit[0]), np.array(limit[0])
        U = ops.OnnxSub(Z, ops.OnnxClip(Z, *bounds, **version), **version)
    else:
        if rule.mode == "top_k" and rule.positive:
            Z = positive_part(Z)
        magnitude = Z if rule.positive else ops.OnnxAbs(Z, **version)
        if rule.mode == "hard":
            is_zero = ops.OnnxLessOrEqual(magnitude, limit, **version)
            U = ops.OnnxWhere(is_zero, zero, Z, **version)
        else:  # of equal entries, TopK chooses the first ones
            k = np.array([rule.k], dtype=np.int64)
            top = ops.OnnxTopK(magnitude, k, axis=1, **version)[1]
            kept = ops.OnnxGatherElements(Z, top, axis=1, **version)
            zeros = ops.OnnxSub(Z, Z, **version)
            U = ops.OnnxScatterElements(zeros, top, kept, axis=1, **version)
    if split_sign:
        negative = positive_part(ops.OnnxNeg(U, **version))
        U = ops.OnnxConcat(positive_part(U), negative, axis=1, **version)
    return U


def export_sae(network: Any, folder: str | os.PathLike[str], *, format: str = "saelens") -> None:
    """Write a network to a folder as a sparse autoencoder of SAELens or sparsify, in float32.

    Parameters
    ----------
    network : SCNN, MiniBatchSCNN or Pipeline
        A fitted network with ``transform_algorithm="encoder"``, or a pipeline of
        ``StandardScaler(with_std=False)`` and such a network; its mean becomes ``b_dec``.
    folder : path
        The folder, which is created if necessary.
    format : {"saelens", "sparsify"}, default="saelens"
        The architecture is "topk" for an integer density with positive codes or split signs. Only
        SAELens also has "abstopk" for both signs, and "jumprelu" for a fraction as density.

    Examples
    --------
    >>> import lincode
    >>> lincode.export_sae(network, "sae", format="sparsify")  # doctest: +SKIP
    """
    safetensors = _safetensors()
    if format not in WEIGHTS:
        raise InvalidInputError(f"format must be 'saelens' or 'sparsify', got {format!r}.")
    *before, network = (
        [step for _, step in network.steps] if isinstance(network, Pipeline) else [network]
    )
    if hasattr(network, "to_local"):  # trained on a cluster
        network = network.to_local()
    centred = [isinstance(step, StandardScaler) and not step.with_std for step in before]
    if not isinstance(network, BaseSCNN) or centred not in ([], [True]):
        raise InvalidInputError(
            "only SCNN and MiniBatchSCNN, or a pipeline of StandardScaler(with_std=False) and one"
            " of them, can be exported."
        )
    check_is_fitted(network)
    if network.transform_algorithm != "encoder":
        raise InvalidInputError(
            "only the codes of transform_algorithm='encoder' are one product and a threshold, got"
            f" {network.transform_algorithm!r}; use set_params(transform_algorithm='encoder')."
        )
    rule, C, D = network._rule(), network.encoder_, network.components_
    top_k, positive = rule.mode == "top_k", rule.positive or network.split_sign
    if not (top_k and positive if format == "sparsify" else top_k or positive):
        raise InvalidInputError(
            f"{format} needs an integer density {'and' if format == 'sparsify' else 'or'} codes of"
            " one sign: positive_code=True, or set_params(split_sign=True)."
        )
    if network.split_sign:
        C, D = np.vstack([C, -C]), np.vstack([D, -D])
    (m, p), mean = D.shape, before[0].mean_ if before else None
    weights = {"b_dec": np.zeros(p) if mean is None else mean, "W_dec": D}
    if format == "sparsify":
        config: dict[str, Any] = SPARSIFY | {"d_in": p, "k": rule.k, "num_latents": m}
        weights |= {"encoder.weight": C, "encoder.bias": np.zeros(m)}
    else:
        kind = "jumprelu" if not top_k else "topk" if positive else "abstopk"
        config = SAELENS | {"d_in": p, "d_sae": m, "architecture": kind}
        weights |= {"W_enc": C.T, "b_enc": np.zeros(m)}
        if top_k:
            config["k"] = rule.k
        else:
            weights["threshold"] = np.full(m, rule.threshold)
    Path(folder).mkdir(parents=True, exist_ok=True)
    arrays = {name: np.array(A, np.float32, order="C") for name, A in weights.items()}
    safetensors.save_file(arrays, Path(folder, WEIGHTS[format]))
    Path(folder, CONFIG).write_text(json.dumps(config, indent=2))


def load_sae(folder: str | os.PathLike[str]) -> Any:
    """Load a sparse autoencoder of SAELens or sparsify as a fitted network.

    Parameters
    ----------
    folder : path
        A folder with "cfg.json" and the weights of an autoencoder with the architecture "standard",
        "topk", "abstopk" or "jumprelu".

    Returns
    -------
    MiniBatchSCNN or Pipeline
        The network, in a pipeline if necessary: ``StandardScaler(with_std=False)`` before it
        subtracts ``b_dec``. For a bias of the encoder, a constant feature is then appended to the
        samples. If units have different thresholds, the network divides its codes by them, and
        a scaler after it undoes this. ``usage_`` is not known, and the same for all units.

    Examples
    --------
    >>> import lincode
    >>> network = lincode.load_sae("sae")  # doctest: +SKIP
    """
    try:
        config = json.loads(Path(folder, CONFIG).read_text())
        name = WEIGHTS["sparsify" if Path(folder, WEIGHTS["sparsify"]).exists() else "saelens"]
        stored = _safetensors().load_file(Path(folder, name))
        W = {name: np.array(A, np.float32) for name, A in stored.items()}
        D, centre = W["W_dec"], W["b_dec"]
        C = W["encoder.weight"] if "encoder.weight" in W else W["W_enc"].T
    except (OSError, ValueError, TypeError, KeyError) as error:
        message = f"{folder} must contain a sparse autoencoder in float32 or float16: {error!r}."
        raise InvalidInputError(message) from error
    wrong = [f"{key}={config[key]!r}" for key, v in ACCEPTED.items() if config.get(key) not in v]
    if wrong:
        raise InvalidInputError(
            f"a network of lincode cannot express {', '.join(wrong)}. The architecture must be one"
            f" of {ACCEPTED['architecture'][1:]}. SAELens can fold a normalisation of activations"
            " into the weights; save the autoencoder again after that."
        )
    kind, m = config.get("architecture", "topk"), len(C)
    bias = W.get("encoder.bias", W.get("b_enc", np.zeros(m, np.float32)))
    limits = np.maximum(W.get("threshold", np.zeros(m, np.float32)), 0)
    if not config.get("apply_b_dec_to_input", True):
        bias = bias + C @ centre
    scale = np.ones((m, 1), np.float32)  # the codes of the network times this are those of the file
    if config.get("rescale_acts_by_decoder_norm"):
        lengths = np.linalg.norm(D, axis=1, keepdims=True)
        C, D, bias = C * lengths, D / lengths, bias * lengths[:, 0]
    if np.ptp(limits) > 0:
        scale = np.maximum(limits, LEAST_THRESHOLD)[:, None]
        limits = np.ones(m)
    steps: list[Any] = []
    if bias.any() or centre.any():
        steps.append(StandardScaler(with_std=False).fit(centre[None]))
    if bias.any():
        pad, last = ((0, 0), (0, 1)), {"obj": -1, "axis": 1}
        C, D = np.hstack([C, bias[:, None]]), np.pad(D, pad)
        constant = {"pad_width": pad, "constant_values": 1}
        steps.append(FunctionTransformer(np.pad, np.delete, kw_args=constant, inv_kw_args=last))
    top_k = kind.endswith("topk")
    network = MiniBatchSCNN(
        m, density=int(config["k"]) if top_k else 0.1, alpha=1.0, positive_code=kind != "abstopk"
    )
    network.components_, network.encoder_ = D * scale, np.ascontiguousarray(C / scale)
    network.density_, network.alpha_, network.noise_variance_ = network.density, 1.0, 0.0
    network.threshold_ = None if top_k else float(limits[0])
    network.n_features_in_, network.usage_ = D.shape[1], np.full(m, network._fraction(m))
    steps.append(network)
    if (scale != 1).any():
        steps.append(StandardScaler(with_mean=False).fit(np.hstack([1 / scale, -1 / scale]).T))
    return make_pipeline(*steps) if len(steps) > 1 else network


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        message = "these formats need safetensors; install it with pip install 'lincode[sae]'."
        raise MissingDependencyError(message) from error
    return safetensors.numpy
