"""Tensors and other arrays of the array API standard, if scikit-learn's dispatch is on.

With ``sklearn.set_config(array_api_dispatch=True)``, ``transform``, ``inverse_transform`` and
``reconstruct`` return an array of the library, the dtype and the device of their input. Arrays on
another device than the CPU are encoded and decoded there if this is a matrix product and a
threshold or an activation. Everything else, and all training, happens in NumPy on the CPU.
Gradients are not computed; ``encoder_module`` is made for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from sklearn import get_config

from lincode.core.encoder_step import Thresholding
from lincode.exceptions import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from lincode.estimators.exported_layers import ExportedLayers

Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class ForeignArray:
    """An array of another library than NumPy."""

    X: Any
    xp: Any
    """The functions of the library, with the names of the array API standard"""
    device: Any

    @property
    def on_cpu(self) -> bool:
        return _is_cpu(self.device)

    def to_numpy(self) -> Any:
        """Return the array as an array of NumPy, without a copy if it is on the CPU."""
        X, xp = self.X, self.xp
        if not self.on_cpu:
            X = _array_api_compat().to_device(X, self.cpu())
        if xp.isdtype(X.dtype, "real floating") and X.dtype not in (xp.float32, xp.float64):
            X = xp.astype(X, xp.float64)  # NumPy does not have all types of floats
        return np.asarray(X)

    def cpu(self) -> Any:
        """Return what the library calls the CPU, as an argument of ``to_device``."""
        if _array_api_compat().is_torch_array(self.X):
            return "cpu"
        devices = self.xp.__array_namespace_info__().devices()
        # CuPy does not list the CPU, but accepts this name.
        return next((device for device in devices if _is_cpu(device)), "cpu")

    def restore(self, result: Any) -> Any:
        """Return an array of NumPy as an array of the library on the device."""
        if not isinstance(result, np.ndarray):  # a SciPy matrix
            return result
        return self.xp.asarray(result, device=self.device)


def foreign_array(X: Any) -> ForeignArray | None:
    """Return a description of X if it has to be returned as it came, and None for other input."""
    if isinstance(X, np.ndarray | np.generic) or not hasattr(X, "__dlpack__"):
        return None
    if not get_config()["array_api_dispatch"]:
        return None
    compat = _array_api_compat()
    X = X.detach() if hasattr(X, "detach") else X  # a tensor of PyTorch
    return ForeignArray(X, compat.array_namespace(X), compat.device(X))


def to_numpy(X: Any) -> Any:
    """Return X as an array of NumPy if it is an array of another library and dispatch is on."""
    array = foreign_array(X)
    return X if array is None else array.to_numpy()


def keeps_array_type(method: Method) -> Method:
    """Make a method of an estimator return an array of the library of its first argument."""

    @wraps(method)
    def wrapper(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        array = foreign_array(X)
        if array is None:
            return method(self, X, *args, **kwargs)
        if not array.on_cpu:
            result = device_result(self, array, method.__name__)
            if result is not None:
                return result
        return array.restore(method(self, array.to_numpy(), *args, **kwargs))

    return cast(Method, wrapper)


def device_result(model: Any, array: ForeignArray, method: str) -> Any:
    """Return the result of a method, computed on the device of the array.

    The result is None if this is not possible: for other algorithms, for sparse output, and for
    input that the usual computation handles or refuses, such as missing entries.
    """
    from lincode.estimators.exported_layers import exported_layers

    X, xp = array.X, array.xp
    try:
        layers = exported_layers(model)
    except InvalidInputError:
        return None
    n_columns = layers.n_codes if method == "inverse_transform" else layers.C.shape[1]
    is_valid = X.ndim == 2 and X.shape[0] > 0 and X.shape[1] == n_columns
    if not is_valid or X.dtype not in (xp.float32, xp.float64):
        return None
    if getattr(model, "sparse_output", False) and method == "transform":
        return None
    if not bool(xp.all(xp.isfinite(X))):  # a threshold would replace NaN by 0
        return None
    layer = DeviceLayers(array, layers)
    if method == "inverse_transform":
        result = layer.decode(X)
    else:
        U = layer.codes(X)
        result = layer.decode(U) if method == "reconstruct" else U
    return result if bool(xp.all(xp.isfinite(result))) else None


class DeviceLayers:
    """The products and thresholds of ``ExportedLayers`` in the functions of another library."""

    def __init__(self, array: ForeignArray, layers: ExportedLayers) -> None:
        self.array, self.xp, self.layers = array, array.xp, layers
        is_single = array.X.dtype == array.xp.float32
        self.dtype: np.dtype[np.floating] = np.dtype(np.float32 if is_single else np.float64)

    def constant(self, values: Any) -> Any:
        values = np.array(values, dtype=self.dtype)  # a copy: the device may be the CPU
        return self.xp.asarray(values, device=self.array.device)

    def decode(self, U: Any) -> Any:
        """Return the reconstructions from codes, which are split if there are more columns."""
        m = len(self.layers.D)
        U = U[:, :m] - U[:, m:] if U.shape[1] > m else U
        return U @ self.constant(self.layers.D)

    def codes(self, X: Any) -> Any:
        """Return the codes of X."""
        xp, layers = self.xp, self.layers
        Z = X @ xp.matrix_transpose(self.constant(layers.C))
        if layers.thresholding is None:
            if layers.activation == "sigmoid":
                return 1 / (1 + xp.exp(-Z))
            return xp.tanh(Z) if layers.activation == "tanh" else Z
        U = self.threshold(Z, layers.thresholding)
        if not layers.split_sign:
            return U
        zero = xp.zeros_like(U)
        return xp.concat([xp.where(U > 0, U, zero), xp.where(U < 0, -U, zero)], axis=1)

    def threshold(self, Z: Any, rule: Thresholding) -> Any:
        """Return the codes for the output Z of the encoder, without splitting signs."""
        xp, zero = self.xp, self.xp.zeros_like(Z)
        limit = float(self.dtype.type(min(rule.threshold, float(np.finfo(self.dtype).max))))
        magnitude = xp.where(Z > 0, Z, zero) if rule.positive else xp.abs(Z)
        if rule.mode == "soft":
            U = Z - xp.clip(Z, None if rule.positive else -limit, limit)
        elif rule.mode == "hard":
            U = xp.where(magnitude > limit, Z, zero)
        else:
            U = xp.where(self.largest(magnitude, rule.k), Z, zero)
        return U if rule.gains is None else U * self.constant(rule.gains)

    def largest(self, magnitude: Any, k: int) -> Any:
        """Return which entries are the k largest positive ones; of equal ones, the first."""
        xp = self.xp
        cutoff = xp.sort(magnitude, axis=1, descending=True)[:, k - 1 : k]
        above, equal = magnitude > cutoff, magnitude == cutoff
        n_above = xp.sum(xp.astype(above, xp.int64), axis=1, keepdims=True)
        rank = xp.cumulative_sum(xp.astype(equal, xp.int64), axis=1)
        return (magnitude > 0) & (above | (equal & (rank <= k - n_above)))


def _is_cpu(device: Any) -> bool:
    return "cpu" in str(device).lower()


def _array_api_compat() -> Any:
    try:
        import array_api_compat
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "arrays of other libraries than NumPy need array-api-compat if array_api_dispatch=True;"
            " install it with: pip install array-api-compat (it is part of lincode[torch])"
        ) from error
    return array_api_compat
