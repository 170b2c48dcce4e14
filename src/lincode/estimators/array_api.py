"""Tensors and other arrays of the array API standard, if scikit-learn's dispatch is on.

With ``sklearn.set_config(array_api_dispatch=True)``, ``transform``, ``inverse_transform`` and
``reconstruct`` return an array of the library, the dtype and the device of their input. The
computation happens in NumPy on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn import get_config

from lincode.exceptions import MissingDependencyError

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
        return array.restore(method(self, array.to_numpy(), *args, **kwargs))

    return cast(Method, wrapper)


def _is_cpu(device: Any) -> bool:
    return "cpu" in str(device).lower()


def _array_api_compat() -> Any:
    try:
        import array_api_compat
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "arrays of other libraries than NumPy need array-api-compat if array_api_dispatch=True;"
            " install it with: pip install array-api-compat"
        ) from error
    return array_api_compat
