"""Conversion of fitted estimators and pipelines to ONNX, by skl2onnx."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lincode.estimators.cv import SCNNCV
from lincode.estimators.dictionary import DictionaryTransformer
from lincode.estimators.exported_layers import exported_layers
from lincode.estimators.validation import check_choice
from lincode.exceptions import InvalidInputError, MissingDependencyError

__all__ = ["register_converters", "to_onnx"]

METHODS = ("transform", "inverse_transform", "reconstruct")
OLDEST_OPSET = 13
"""The oldest version of the ONNX operators that the graphs can be written in."""


def to_onnx(
    model: Any,
    X: Any = None,
    *,
    method: str = "transform",
    dtype: Any = None,
    target_opset: int | dict[str, int] | None = None,
    options: dict[Any, Any] | None = None,
) -> Any:
    """Convert a fitted estimator, or a pipeline that contains one, to an ONNX model.

    The encoder becomes one matrix product and a threshold, which onnxruntime and other runtimes
    compute without Python packages. The codes are those of ``transform``, except for rounding.

    Parameters
    ----------
    model : estimator
        A fitted SCNN, MiniBatchSCNN or SCNNCV with ``transform_algorithm="encoder"``, a
        SparseCoder with ``transform_algorithm="threshold"``, or a Pipeline,
        ColumnTransformer or other estimator of scikit-learn that contains some of these and that
        skl2onnx can convert.
    X : array, CSR matrix or data frame, default=None
        Some samples, from which the type of the input and, for a data frame, the names of the
        inputs are taken. If it is None, there is one input of shape (n, n_features) and of type
        ``dtype``. The number of samples n is never fixed. With ``method="inverse_transform"``, X
        may also be some codes. Pipelines whose input is text need X.
    method : {"transform", "inverse_transform", "reconstruct"}, default="transform"
        What the ONNX model computes. "transform" includes the predictions of a pipeline that ends
        with a classifier or regressor. The other two are available for the estimators of lincode,
        not for pipelines.
    dtype : {numpy.float32, numpy.float64}, default=None
        The type of the input if X is None. None means that of the weights of an estimator of
        lincode, and float32 for pipelines.
    target_opset : int or dict, default=None
        The version of the ONNX operators, at least 13. None means the latest one of skl2onnx,
        which is also the largest that is accepted.
    options : dict, default=None
        Options of skl2onnx, for example ``{"zipmap": False}``, with which a classifier returns its
        probabilities as an array and not as a list of dictionaries. None means this option for
        classifiers whose probabilities are float64, which is so for most of them if the input is
        float64, because ONNX has such dictionaries for float32 only. Otherwise it means no options.

    Returns
    -------
    onnx.ModelProto
        Its method ``SerializeToString`` returns the contents of an ONNX file. The input of an
        estimator of lincode is called "X" and the output "codes", or "codes" and "samples" with
        ``method="inverse_transform"``.

    Raises
    ------
    lincode.exceptions.MissingDependencyError
        If skl2onnx is not installed.
    lincode.exceptions.InvalidInputError
        If the codes are computed by iterations, as with ``transform_algorithm="lasso"``.

    Notes
    -----
    Missing entries are not predicted: the code of a sample with NaN is NaN. With
    ``sparse_output=True`` the codes are still dense. If X contains integers, the input of an
    estimator of lincode has the type float64. The input of a pipeline then has the type of these
    integers, and its steps convert them to float32.

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
    register_converters()
    check_choice("method", method, METHODS)
    if isinstance(X, str | bytes | os.PathLike):
        raise InvalidInputError(
            f"X must be samples or None, got {X!r}; write the result's SerializeToString() to a"
            " file to save the ONNX model."
        )
    if options is not None and not isinstance(options, dict):
        raise InvalidInputError(f"options must be a dict of options of skl2onnx, got {options!r}.")
    target_opset = _checked_opset(target_opset)
    if hasattr(model, "to_local"):  # trained on a cluster
        model = model.to_local()
    if isinstance(model, DictionaryTransformer | SCNNCV):
        arguments = _own_arguments(model, X, method, dtype)
    else:
        _check_estimator(model, method)
        arguments = {"model": model, **_pipeline_input(model, X, dtype)}
    arguments["target_opset"] = target_opset
    onnx_model = _convert(**arguments, options=options)
    if _has_dictionaries(onnx_model) and not _is_valid(onnx_model):
        return _with_double_probabilities(arguments, options)
    return onnx_model


def register_converters() -> None:
    """Register the converters of lincode's estimators with skl2onnx.

    :func:`lincode.to_onnx` calls it. Call it before ``skl2onnx.to_onnx`` or
    ``skl2onnx.convert_sklearn`` if you use these functions directly.

    Raises
    ------
    lincode.exceptions.MissingDependencyError
        If skl2onnx is not installed.

    Examples
    --------
    >>> from lincode.onnx import register_converters
    >>> register_converters()  # doctest: +SKIP
    """
    try:
        import skl2onnx  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "conversion to ONNX needs skl2onnx; install it with: pip install 'lincode[onnx]'"
        ) from error
    from lincode.onnx.graphs import register

    register()


def _checked_opset(target_opset: Any) -> Any:
    """Return target_opset; a dict without the main operators gets their latest version."""
    from skl2onnx import get_latest_tested_opset_version

    latest = get_latest_tested_opset_version()
    if target_opset is None:
        return None
    is_dict = isinstance(target_opset, dict)
    versions = {"": latest, **target_opset} if is_dict else {"": target_opset}
    for version in versions.values():
        if isinstance(version, bool) or not isinstance(version, int | np.integer):
            raise InvalidInputError(
                "target_opset must be None, an integer or a dict of integers, got"
                f" {target_opset!r}."
            )
    if not OLDEST_OPSET <= versions[""] <= latest:
        raise InvalidInputError(
            f"target_opset must be at least {OLDEST_OPSET} and at most {latest}, the latest version"
            f" of the installed skl2onnx, got {versions['']}."
        )
    return versions if is_dict else int(target_opset)


def _check_columns(X: Any, n_features: int | None, n_codes: int | None = None) -> None:
    """Check the number of columns of X. None means that it is not known, or that X is no code."""
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    if n_features is None or (len(shape) == 2 and shape[1] in (n_features, n_codes)):
        return
    if n_codes is None:
        expected = f"{n_features} columns, as many as the input of the model"
    else:
        expected = f"{n_codes} columns if it contains codes and {n_features} if it contains samples"
    raise InvalidInputError(f"X must have two dimensions and {expected}, got shape {tuple(shape)}.")


def _check_estimator(model: Any, method: str) -> None:
    """Check an estimator that is not one of lincode."""
    if not isinstance(model, BaseEstimator):
        raise InvalidInputError(
            "model must be a fitted estimator of lincode or scikit-learn, got"
            f" {type(model).__name__}."
        )
    if method != "transform":
        raise InvalidInputError(
            f"method={method!r} is for estimators of lincode only, got {type(model).__name__};"
            " convert the step of the pipeline, such as pipeline['scnn'], or use"
            " method='transform'."
        )
    check_is_fitted(model)


def _own_arguments(model: Any, X: Any, method: str, dtype: Any) -> dict[str, Any]:
    """Return the arguments of skl2onnx for an estimator of lincode, which has one input."""
    from lincode.onnx.graphs import Decoder

    layers = exported_layers(model)
    if X is not None:
        allowed = (layers.n_codes,) if method == "inverse_transform" else ()
        _check_columns(X, layers.C.shape[1], *allowed)
        dtype = np.float32 if _first_sample(X).dtype == np.float32 else np.float64
    kind = _as_dtype(layers.C.dtype if dtype is None else dtype)
    if method == "transform":
        n_features, names = layers.C.shape[1], ("X", "codes")
    else:
        model = Decoder(layers, encode=method == "reconstruct")
        n_features = model.n_features_in_
        names = ("X" if model.encode else "codes", "samples")
    return {
        "model": model,
        "initial_types": [(names[0], _tensor_type(kind, n_features))],
        "final_types": [(names[1], None)],
    }


def _pipeline_input(model: Any, X: Any, dtype: Any) -> dict[str, Any]:
    """Return the arguments of skl2onnx that describe the input of a pipeline."""
    if X is None:
        kind = _as_dtype(np.float32 if dtype is None else dtype)
        n_features = getattr(model, "n_features_in_", None)
        if n_features is None:  # such as a pipeline that begins with TfidfVectorizer
            raise InvalidInputError(
                f"X must be some samples, because this {type(model).__name__} does not have a fixed"
                " number of features as input, got None; pass samples as to its method fit."
            )
        return {"initial_types": [("X", _tensor_type(kind, n_features))]}
    if hasattr(X, "iloc"):  # a data frame of pandas, each column of which becomes an input
        return {"X": X}
    _check_columns(X, getattr(model, "n_features_in_", None))
    return {"X": _first_sample(X)}


def _first_sample(X: Any) -> Any:
    """Return an array with one row that has the type and the number of columns of X."""
    return np.zeros((1, X.shape[1]), X.dtype) if issparse(X) else np.asarray(X[:1])


def _as_dtype(dtype: Any) -> np.dtype[Any]:
    try:
        kind: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise InvalidInputError(f"dtype must be float32 or float64, got {dtype!r}.") from error
    return kind


def _tensor_type(dtype: np.dtype[Any], n_features: int) -> Any:
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    if dtype not in (np.float32, np.float64):
        raise InvalidInputError(f"dtype must be float32 or float64, got {dtype}.")
    return (FloatTensorType if dtype == np.float32 else DoubleTensorType)([None, n_features])


def _convert(**arguments: Any) -> Any:
    """Call skl2onnx, and raise InvalidInputError if a step or an option is not supported."""
    import skl2onnx
    from skl2onnx.common.exceptions import MissingConverter, MissingShapeCalculator

    options = arguments["options"]
    # skl2onnx raises these for options that it does not know; other errors are not expected.
    of_options = (NameError, ValueError, RuntimeError, AttributeError) if options else NameError
    try:
        return skl2onnx.to_onnx(**arguments)
    except InvalidInputError:
        raise
    except (MissingConverter, MissingShapeCalculator, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(f"skl2onnx cannot convert a step of the model: {reason}") from error
    except of_options as error:
        reason = " ".join(str(error).split()).rstrip(".")
        advice = "; remove or correct the option." if options else "."
        raise InvalidInputError(
            f"skl2onnx cannot convert the model with options={options!r}: {reason}{advice}"
        ) from error


def _has_dictionaries(onnx_model: Any) -> bool:
    """Return whether the probabilities of a classifier are a list of dictionaries."""
    return any(node.op_type == "ZipMap" for node in onnx_model.graph.node)


def _is_valid(onnx_model: Any) -> bool:
    """Return whether the types of all inputs of all nodes are as they must be."""
    import onnx

    try:
        onnx.checker.check_model(onnx_model, full_check=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def _with_double_probabilities(arguments: dict[str, Any], options: Any) -> Any:
    """Convert a classifier whose probabilities are float64, so that they cannot be dictionaries."""
    if options is not None:
        raise InvalidInputError(
            "the probabilities of a classifier with float64 input cannot be dictionaries, because"
            " ONNX has them for float32 only; add 'zipmap': False to options, with which they are"
            " an array, or give float32 samples."
        )
    onnx_model = _convert(**arguments, options={"zipmap": False})
    if not _is_valid(onnx_model):
        raise InvalidInputError(
            "skl2onnx cannot convert this classifier for these types of samples, because it mixes"
            " float32 and float64; convert all columns of X to float32."
        )
    return onnx_model
