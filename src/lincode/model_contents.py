"""What a model file holds of each network, and how values become JSON and values again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from lincode.core.energy import CodeStats
from lincode.estimators.ascnn import ASCNN
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.saann import SAANN
from lincode.estimators.scnn import SCNN
from lincode.estimators.sparsenet import Sparsenet
from lincode.networks.scnn import Momentum
from lincode.networks.scnn_minibatch import Stream

SCALARS = (
    "bool", "float16", "float32", "float64",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
"""Numpy's numbers that JSON can hold if it says which they are."""


@dataclass(frozen=True)
class Kind:
    """What is stored of one class, each by the attribute it is found at."""

    cls: type[Any]
    arrays: dict[str, str]
    """Their shapes: m units, p features, t of any length"""
    values: dict[str, type[Any]]

    def check(self, tensors: dict[str, Any], values: dict[str, Any]) -> None:
        """All that is learned is there, of the right shape and kind, and finite."""
        expected, found = set(self.arrays) | set(self.values), set(tensors) | set(values)
        extra = {name for name in found - expected if not name.startswith("parameter.")}
        if expected - found or extra:
            raise ValueError(
                f"it must have {', '.join(sorted(expected - found)) or 'nothing more'}"
                f" and not {', '.join(sorted(extra)) or 'less'}."
            )
        for name, kind in self.values.items():
            self._check_value(name, values[name], kind)
        sizes = {"m": 0, "p": int(values["n_features_in_"])}
        sizes["m"] = len(tensors["components_"]) if tensors["components_"].ndim else 0
        for name, letters in self.arrays.items():
            shape = tensors[name].shape
            wanted = tuple(sizes.get(a, b) for a, b in zip(letters, shape, strict=False))
            if len(shape) != len(letters) or shape != wanted or 0 in shape:
                raise ValueError(f"{name} must have shape ({', '.join(letters)}), got {shape}.")
        for name, A in tensors.items():
            if not np.isfinite(A).all():
                raise ValueError(f"{name} must be finite, but has NaN or infinity.")

    @staticmethod
    def _check_value(name: str, value: Any, kind: type[Any]) -> None:
        if not isinstance(value, kind):
            raise ValueError(f"{name} must be of type {kind.__name__}, got {value!r}.")
        if isinstance(value, Real) and not math.isfinite(value):
            raise ValueError(f"{name} must be finite, got {value!r}.")


TRAINED: dict[str, type[Any]] = {
    "n_features_in_": Integral,
    "energy_": Real,
    "n_iter_": Integral,
    "stop_reason_": str,
}
LAYERS = {"components_": "mp", "encoder_": "mp", "energy_path_": "t"}
STREAM_ARRAYS = {
    "_stream.D": "mp",
    "_stream.C": "mp",
    "_stream.stats.UtU": "mm",
    "_stream.stats.UtX": "mp",
    "_stream.stats.used": "m",
    "_stream.XtX": "pp",
    "_stream.momentum.D": "mp",
    "_stream.momentum.C": "mp",
}
STREAM_VALUES: dict[str, type[Any]] = {
    "_stream.stats.l1": Real,
    "_stream.stats.n": Real,
    "_stream.stats.residual": Real,
    "_stream.momentum.age": Integral,
    "_stream.precision": np.dtype,
    "_stream.n_batches": Integral,
    "_stream.n_seen": Integral,
    "_stream.n_replaced": Integral,
    "_stream.batch_energy": Real,
}
SHARED: dict[str, type[Any]] = {"matching_threshold_": Real, "n_replaced_atoms_": Integral, "alpha_": Real}
BATCHES: dict[str, type[Any]] = {"n_steps_": Integral, "n_samples_seen_": Integral}
KINDS = {
    kind.cls.__name__: kind
    for kind in (
        Kind(SCNN, LAYERS | {"usage_": "m"}, TRAINED | SHARED | {"optimality_": dict}),
        Kind(
            MiniBatchSCNN,
            LAYERS | {"usage_": "m"} | STREAM_ARRAYS,
            TRAINED | SHARED | BATCHES | STREAM_VALUES,
        ),
        Kind(SAANN, LAYERS, TRAINED),
        Kind(ASCNN, LAYERS | {"bottom_energy_path_": "t"}, TRAINED),
        Kind(
            Sparsenet,
            {"components_": "mp", "variance_": "m", "energy_path_": "t"},
            TRAINED | {"alpha_": Real, "sigma_": Real},
        ),
    )
}
"""The only classes a file can be made into; never one that the file names beyond them."""


def restored(found: dict[str, Any]) -> dict[str, Any]:
    """Attributes of the network, those of its stream put together again."""
    own = {name: value for name, value in found.items() if not name.startswith("_stream.")}
    if len(own) == len(found):
        return own

    def part(prefix: str) -> dict[str, Any]:
        keys = (key for key in found if key.startswith(prefix))
        return {k.removeprefix(prefix): found[k] for k in keys if "." not in k[len(prefix) :]}

    own["_stream"] = Stream(
        **part("_stream."),
        stats=CodeStats(**part("_stream.stats.")),
        momentum=Momentum(**part("_stream.momentum.")),
    )
    return own


def to_plain(value: Any) -> Any:
    """Something JSON can hold, from which ``from_plain`` makes the same value of the same type.

    Examples
    --------
    >>> import numpy as np
    >>> from lincode.model_contents import from_plain, to_plain
    >>> to_plain(np.float32(0.5))
    {'type': 'float32', 'value': 0.5}
    >>> from_plain(to_plain(float("inf")))
    inf
    """
    if isinstance(value, np.dtype) and value.name in SCALARS:
        return {"type": "dtype", "value": value.name}
    if isinstance(value, np.generic) and value.dtype.name in SCALARS:
        return {"type": value.dtype.name, "value": to_plain(value.item())}
    if isinstance(value, float) and not math.isfinite(value):
        return {"type": "float", "value": repr(value)}
    if isinstance(value, list):
        return [to_plain(entry) for entry in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"type": "dict", "value": {key: to_plain(entry) for key, entry in value.items()}}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"{value!r} is neither a number nor text.")


def from_plain(plain: Any) -> Any:
    """What ``to_plain`` was given; a ValueError, KeyError or TypeError if it never was."""
    if isinstance(plain, list):
        return [from_plain(entry) for entry in plain]
    if not isinstance(plain, dict):
        return plain
    kind, value = plain["type"], plain["value"]
    if kind == "dict":
        return {key: from_plain(entry) for key, entry in value.items()}
    if kind == "float":
        return float(value)
    name = value if kind == "dtype" else kind
    if name not in SCALARS:
        raise ValueError(f"the type {name!r} is not known.")
    return np.dtype(name) if kind == "dtype" else np.dtype(name).type(from_plain(value))
