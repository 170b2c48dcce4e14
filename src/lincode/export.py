"""Networks for other libraries: ONNX models, and sparse autoencoders of SAELens and sparsify."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from lincode.core.arrays import Array
from lincode.core.threshold import Thresholding
from lincode.estimators.base import BaseSCNN
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.scnn import SCNN
from lincode.estimators.sparse_encode import SparseCoder
from lincode.exceptions import InvalidInputError, MissingDependencyError

ENCODERS = (SCNN, MiniBatchSCNN, SparseCoder)
WEIGHTS = {"saelens": "sae_weights.safetensors", "sparsify": "sae.safetensors"}
CONFIG = "cfg.json"
DEFAULTS: dict[str, tuple[Any, ...]] = {
    "normalize_activations": (None, "none"),
    "reshape_activations": (None, "none"),
    "rescale_acts_by_decoder_norm": (None, False),
    "activation": (None, "topk"),
    "skip_connection": (None, False),
    "transcode": (None, False),
}
"""The values of options of these formats that ``load_sae`` accepts; None means not given."""


def to_onnx(
    model: Any,
    X: Any = None,
    *,
    target_opset: int | dict[str, int] | None = None,
    options: dict[Any, Any] | None = None,
) -> Any:
    """Convert a fitted estimator, or a pipeline that contains one, to an ONNX model.

    The encoder becomes one matrix product and a threshold, which onnxruntime and other runtimes
    compute without Python packages. The codes are those of ``transform``, except for rounding.

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

    Notes
    -----
    Missing entries are not predicted: the code of a sample with NaN is NaN. With
    ``sparse_output=True`` the codes are still dense.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import lincode
    >>> X = load_digits().data / 16
    >>> scnn = lincode.SCNN(20, random_state=0).fit(X)
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
    _register_converters()
    if hasattr(model, "to_local"):  # trained on a cluster
        model = model.to_local()
    check_is_fitted(model)
    arguments: dict[str, Any] = {"target_opset": target_opset, "options": options}
    if isinstance(model, ENCODERS):
        C = layers_of(model).C
        arguments |= {"initial_types": [("X", _input_type(C if X is None else X, C.shape[1]))]}
        arguments |= {"final_types": [("codes", None)]}
    elif X is None:
        kind = _input_type(np.zeros(0, np.float32), model.n_features_in_)
        arguments |= {"initial_types": [("X", kind)]}
    else:
        first = np.zeros((1, X.shape[1]), X.dtype) if issparse(X) else X[:1]
        arguments |= {"X": first if hasattr(X, "iloc") else np.asarray(first)}
    if options is None and is_classifier(model):
        arguments["options"] = {"zipmap": False}
    return skl2onnx.to_onnx(model, **arguments)


@dataclass(frozen=True)
class Layers:
    """Codes U = f(X Cᵀ), where f is a threshold, possibly with separate columns for both signs."""

    C: Array
    thresholding: Thresholding
    split_sign: bool


def layers_of(model: Any) -> Layers:
    """Return the layers of a fitted estimator whose codes are one product and a threshold."""
    check_is_fitted(model)
    model._check_parameters()
    exported = ("threshold",) if isinstance(model, SparseCoder) else ("encoder", "paper")
    if model.transform_algorithm not in exported:
        raise InvalidInputError(
            f"transform_algorithm of {type(model).__name__} must be {exported[0]!r} for ONNX,"
            " because other codes are not one matrix product and a threshold; got"
            f" {model.transform_algorithm!r}. Use set_params(transform_algorithm={exported[0]!r})."
        )
    if isinstance(model, SparseCoder):
        C = model.components_
        alpha = 1.0 if model.transform_alpha is None else float(model.transform_alpha)
        rule = Thresholding("soft", alpha, positive=bool(model.positive_code))
    else:
        C, rule = model.encoder_, model._rule()
    return Layers(C, rule, bool(model.split_sign))


def _input_type(X: Any, n_features: int) -> Any:
    """Return the type of an input like X: float32 or float64."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    dtype = X.dtype if hasattr(X, "dtype") else np.asarray(X).dtype
    return (FloatTensorType if dtype == np.float32 else DoubleTensorType)([None, n_features])


def _register_converters() -> None:
    """Register the converters with skl2onnx. Calling it again has no further effect."""
    from skl2onnx import update_registered_converter

    for encoder in ENCODERS:
        name = f"Lincode{encoder.__name__}"
        update_registered_converter(encoder, name, _set_output_type, _convert)


def _set_output_type(operator: Any) -> None:
    """Set the type and the shape of the output. The number of rows is not fixed."""
    from skl2onnx.common.data_types import guess_tensor_type

    layers, source = layers_of(operator.raw_operator), operator.inputs[0]
    n_codes = len(layers.C) * (2 if layers.split_sign else 1)
    kind = type(guess_tensor_type(source.type))
    operator.outputs[0].type = kind([source.get_first_dimension(), n_codes])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of an encoder. Integers become float32."""
    from skl2onnx.algebra.onnx_ops import OnnxCast, OnnxConcat, OnnxGemm, OnnxIdentity
    from skl2onnx.common.data_types import guess_numpy_type, guess_proto_type, guess_tensor_type

    version = {"op_version": container.target_opset}
    kind = guess_tensor_type(operator.inputs[0].type)
    dtype = np.dtype(guess_numpy_type(kind))
    inputs = [
        x if type(x.type) is type(kind) else OnnxCast(x, to=guess_proto_type(kind), **version)
        for x in operator.inputs  # the columns of a data frame are separate inputs
    ]
    X = inputs[0] if len(inputs) == 1 else OnnxConcat(*inputs, axis=1, **version)
    layers = layers_of(operator.raw_operator)
    Z = OnnxGemm(X, np.array(layers.C, dtype, order="C"), transB=1, **version)
    result = _codes(Z, layers, dtype, version)
    output = OnnxIdentity(result, output_names=operator.outputs[:1], **version)
    output.add_to(scope, container)


def _codes(Z: Any, layers: Layers, dtype: np.dtype[Any], version: dict[str, Any]) -> Any:
    """Return the nodes of the threshold. NaN in a sample leads to NaN in its code, not to zeros."""
    from skl2onnx.algebra import onnx_ops as ops

    def positive_part(U: Any) -> Any:
        return ops.OnnxWhere(ops.OnnxLess(U, zero, **version), zero, U, **version)

    rule, zero = layers.thresholding, np.zeros(1, dtype)
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
    if layers.split_sign:
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
    steps = [step for _, step in network.steps] if isinstance(network, Pipeline) else [network]
    scaler, network = steps[0] if len(steps) == 2 else None, steps[-1]
    if hasattr(network, "to_local"):  # trained on a cluster
        network = network.to_local()
    is_centred = len(steps) == 1 or (isinstance(scaler, StandardScaler) and not scaler.with_std)
    if not (isinstance(network, BaseSCNN) and is_centred):
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
    positive = rule.positive or network.split_sign
    if network.split_sign:
        C, D = np.vstack([C, -C]), np.vstack([D, -D])
    if not positive and (rule.mode == "hard" or format == "sparsify"):
        raise InvalidInputError(
            f"{format} cannot express codes of both signs; use"
            " positive_code=True, or set_params(split_sign=True)."
        )
    if rule.mode == "hard" and format == "sparsify":
        raise InvalidInputError("sparsify has no threshold; use an integer density.")
    m, p = D.shape
    b_dec = np.zeros(p) if scaler is None or scaler.mean_ is None else scaler.mean_
    weights = {"b_dec": b_dec, "W_dec": D}
    config: dict[str, Any] = {"d_in": p, "k": rule.k}
    if format == "sparsify":
        config |= {"num_latents": m, "activation": "topk", "normalize_decoder": False}
        config |= {"multi_topk": False, "skip_connection": False, "transcode": False}
        weights |= {"encoder.weight": C, "encoder.bias": np.zeros(m)}
    else:
        config |= {"d_sae": m, "dtype": "float32", "device": "cpu", "apply_b_dec_to_input": True}
        config |= {"normalize_activations": "none", "reshape_activations": "none"}
        config |= {"metadata": {"sae_lens_version": "6.0.0"}}
        config["architecture"] = "topk" if positive else "abstopk"
        weights |= {"W_enc": C.T, "b_enc": np.zeros(m)}
        if rule.mode == "hard":
            del config["k"]
            config["architecture"] = "jumprelu"
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
        A folder with "cfg.json" and the weights. The encoder must have no bias, and "jumprelu" one
        threshold for all units.

    Returns
    -------
    MiniBatchSCNN or Pipeline
        A network, or a pipeline of ``StandardScaler(with_std=False)`` and a network if ``b_dec`` is
        not zero. ``usage_`` is not known, and therefore the same for all units.

    Examples
    --------
    >>> import lincode
    >>> network = lincode.load_sae("sae")  # doctest: +SKIP
    """
    try:
        config = json.loads(Path(folder, CONFIG).read_text())
        name = WEIGHTS["sparsify" if Path(folder, WEIGHTS["sparsify"]).exists() else "saelens"]
        weights = _safetensors().load_file(Path(folder, name))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{folder} must contain a sparse autoencoder: {error}.") from error
    kind = config.get("architecture", "topk")
    C = weights["encoder.weight"] if "encoder.weight" in weights else weights["W_enc"].T
    D, centre = weights["W_dec"], weights["b_dec"]
    bias = weights.get("encoder.bias", weights.get("b_enc", np.zeros(1)))
    thresholds = weights.get("threshold", np.zeros(1))
    wrong = [name for name, values in DEFAULTS.items() if config.get(name) not in values]
    wrong += ["architecture"] * (kind not in ("topk", "abstopk", "standard", "jumprelu"))
    wrong += ["b_enc, which is not zero"] * bool(bias.any())
    wrong += ["threshold, which is not equal for all units"] * bool(np.ptp(thresholds) > 0)
    wrong += ["apply_b_dec_to_input"] * (not config.get("apply_b_dec_to_input", True))
    if wrong:
        raise InvalidInputError(f"a network of lincode cannot express: {', '.join(wrong)}.")
    m, top_k = len(C), kind.endswith("topk")
    network = MiniBatchSCNN(
        m, density=int(config["k"]) if top_k else 0.1, alpha=1.0, positive_code=kind != "abstopk"
    )
    network.components_, network.encoder_ = D, np.ascontiguousarray(C)
    network.density_, network.alpha_, network.noise_variance_ = network.density, 1.0, 0.0
    network.threshold_ = None if top_k else float(thresholds[0])
    network.n_features_in_, network.usage_ = C.shape[1], np.full(m, network._fraction(m))
    if not centre.any():
        return network
    scaler = StandardScaler(with_std=False)
    scaler.mean_, scaler.n_features_in_ = centre.astype(np.float64), len(centre)
    scaler.scale_ = scaler.var_ = None
    return make_pipeline(scaler, network)


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        message = "these formats need safetensors; install it with pip install 'lincode[sae]'."
        raise MissingDependencyError(message) from error
    return safetensors.numpy
