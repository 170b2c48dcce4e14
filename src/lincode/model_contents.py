"""Convert fitted estimators to arrays and JSON values, and back.

``MODEL_CLASSES`` lists what is stored for each class. ``pack`` and ``unpack`` do not read or
write files; :mod:`lincode.model_file` writes and reads their results.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from numbers import Integral, Real
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lincode.core.energy import CodeStats
from lincode.core.stream_gram import StreamGram
from lincode.estimators.ascnn import ASCNN
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.saann import SAANN
from lincode.estimators.scnn import SCNN
from lincode.estimators.sparsenet import Sparsenet
from lincode.exceptions import InvalidInputError
from lincode.networks.scnn import Momentum
from lincode.networks.scnn_minibatch import Stream
from lincode.tensor_file import from_json, to_json

PARAMETER = "parameter."
"""Prefix of arrays that are constructor parameters. Other arrays are fitted attributes."""


@dataclass(frozen=True)
class ModelClass:
    """The fitted attributes that are stored for one class. Dots separate nested attributes."""

    cls: type[Any]
    arrays: dict[str, str]
    """Names and shapes of arrays: m is n_components, p is n_features, r and t are any length"""
    values: dict[str, type[Any]]
    """Names and types of all other attributes"""
    optional_arrays: dict[str, str] = field(default_factory=dict)
    """Names and shapes of arrays that exist only for some parameters"""

    def check(self, tensors: dict[str, Any], values: dict[str, Any]) -> None:
        """Check that exactly these attributes are present, valid and finite."""
        expected, found = set(self.arrays) | set(self.values), set(tensors) | set(values)
        extra = {name for name in found - expected if not name.startswith(PARAMETER)}
        extra -= set(self.optional_arrays)
        if expected - found or extra:
            missing = ", ".join(sorted(expected - found)) or "none"
            raise InvalidInputError(
                f"the attributes of {self.cls.__name__} are not complete or not known: missing"
                f" {missing}, unknown {', '.join(sorted(extra)) or 'none'}."
            )
        for name, kind in self.values.items():
            value = values[name]
            if not isinstance(value, kind):
                raise InvalidInputError(f"{name} must be of type {kind.__name__}, got {value!r}.")
            if isinstance(value, Real) and not math.isfinite(value):
                raise InvalidInputError(f"{name} must be finite, got {value!r}.")
        sizes = {"m": np.atleast_1d(tensors["components_"]).shape[0], "p": values["n_features_in_"]}
        for name, letters in (self.arrays | self.optional_arrays).items():
            if name not in tensors:
                continue
            shape = tensors[name].shape
            valid = tuple(sizes.get(a, n) for a, n in zip(letters, shape, strict=False))
            if len(shape) != len(letters) or shape != valid or 0 in shape:
                raise InvalidInputError(
                    f"{name} must have shape ({', '.join(letters)}), got {shape}."
                )
        for name, array in tensors.items():
            if not np.isfinite(array).all():
                raise InvalidInputError(f"{name} must be finite, but contains NaN or infinity.")


FITTED: dict[str, type[Any]] = {
    "n_features_in_": Integral,
    "energy_": Real,
    "n_iter_": Integral,
    "stop_reason_": str,
}
WEIGHTS = {"components_": "mp", "encoder_": "mp", "energy_path_": "t"}
SCNN_VALUES: dict[str, type[Any]] = {
    "alpha_": Real,
    "matching_threshold_": Real,
    "matching_density_": Real,
    "encoder_ridge_": Real,
    "noise_variance_": Real,
    "encoder_r2_": Real,
    "calibrated_mode_": str,
    "calibrated_gains_": bool,
    "refined_threshold_": Real,
    "n_replaced_atoms_": Integral,
}
SCNN_ARRAYS = {"usage_": "m", "gains_": "m"}
SCNN_OPTIONAL_ARRAYS = {"decoder_": "mp", "refined_encoder_": "mp"}
MINIBATCH_VALUES: dict[str, type[Any]] = {"n_steps_": Integral, "n_samples_seen_": Integral}
# The state from which partial_fit continues.
STREAM_ARRAYS = {
    "_stream.D": "mp",
    "_stream.C": "mp",
    "_stream.stats.UtU": "mm",
    "_stream.stats.UtX": "mp",
    "_stream.stats.used": "m",
    "_stream.momentum.D": "mp",
    "_stream.momentum.C": "mp",
}
# XᵀX itself, or what replaces it if there are many features.
STREAM_OPTIONAL_ARRAYS = {
    "_stream.XtX": "pp",
    "_stream.XtX.B": "rp",
    "_stream.XtX.squares": "p",
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
    "_stream.ridge": Real,
}
MODEL_CLASSES = {
    entry.cls.__name__: entry
    for entry in (
        ModelClass(
            SCNN,
            WEIGHTS | SCNN_ARRAYS,
            FITTED | SCNN_VALUES | {"optimality_": dict},
            SCNN_OPTIONAL_ARRAYS,
        ),
        ModelClass(
            MiniBatchSCNN,
            WEIGHTS | SCNN_ARRAYS | STREAM_ARRAYS,
            FITTED | SCNN_VALUES | MINIBATCH_VALUES | STREAM_VALUES,
            SCNN_OPTIONAL_ARRAYS | STREAM_OPTIONAL_ARRAYS,
        ),
        ModelClass(SAANN, WEIGHTS, FITTED),
        ModelClass(ASCNN, WEIGHTS | {"first_stage_energy_path_": "t"}, FITTED),
        ModelClass(
            Sparsenet,
            {"components_": "mp", "variance_": "m", "energy_path_": "t"},
            FITTED | {"alpha_": Real, "sigma_": Real},
        ),
    )
}
"""The only classes that can be stored and loaded."""


def pack(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert a fitted estimator to values for JSON and C-contiguous arrays.

    Returns
    -------
    contents : dict
        "class", "parameters", "values" (fitted attributes that are not arrays), "transposed"
        (names of the arrays that are stored transposed) and "left_out" (parameters that cannot
        be stored).
    tensors : dict of str to array
    """
    entry = MODEL_CLASSES.get(type(model).__name__)
    if entry is None or type(model) is not entry.cls:
        raise InvalidInputError(
            f"model must be one of {', '.join(MODEL_CLASSES)} or SCNNCV, got"
            f" {type(model).__name__}; of a pipeline, save the last step: pipeline[-1]."
        )
    check_is_fitted(model)
    model._check_parameters()
    parameters, tensors, left_out = _pack_parameters(model)
    tensors |= {name: np.asarray(attrgetter(name)(model)) for name in entry.arrays}
    optional = {name: _array_or_none(model, name) for name in entry.optional_arrays}
    tensors |= {name: array for name, array in optional.items() if array is not None}
    values = {name: attrgetter(name)(model) for name in entry.values}
    entry.check(tensors, values)
    if hasattr(model, "feature_names_in_"):
        values["feature_names_in_"] = [str(name) for name in model.feature_names_in_]
    # Matrix products depend on the memory order in the last bit. Arrays in Fortran order are
    # therefore stored transposed, so that they have the same order when they are loaded.
    transposed = sorted(name for name, array in tensors.items() if array.flags.fnc)
    contents = {
        "class": type(model).__name__,
        "parameters": parameters,
        "values": {name: to_json(value) for name, value in values.items()},
        "transposed": transposed,
        "left_out": left_out,
    }
    for name in transposed:
        tensors[name] = tensors[name].T
    return contents, {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def _array_or_none(model: Any, name: str) -> Any:
    """Return a nested attribute if it exists and is an array."""
    try:
        value = attrgetter(name)(model)
    except AttributeError:
        return None
    return value if isinstance(value, np.ndarray) else None


def _pack_parameters(model: Any) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return parameters for JSON, parameters that are arrays, and names of all others."""
    values, tensors, left_out = {}, {}, []
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "buif":
            is_float = value.dtype in (np.float32, np.float64)
            tensors[PARAMETER + name] = value if is_float else value.astype(np.float64)
            continue
        try:
            values[name] = to_json(os.fspath(value) if isinstance(value, os.PathLike) else value)
        except InvalidInputError:
            left_out.append(name)
    return values, tensors, left_out


def unpack(contents: dict[str, Any], tensors: dict[str, Any]) -> Any:
    """Convert the results of ``pack`` to an equal estimator.

    Contents that ``pack`` did not return raise an error of any of several types.
    """
    entry = MODEL_CLASSES[contents["class"]]
    tensors = dict(tensors)
    for name in contents["transposed"]:
        tensors[name] = tensors[name].T
    values = {name: from_json(value) for name, value in contents["values"].items()}
    parameters = {name: from_json(value) for name, value in contents["parameters"].items()}
    for name in [name for name in tensors if name.startswith(PARAMETER)]:
        parameters[name.removeprefix(PARAMETER)] = tensors.pop(name)
    unknown = sorted(set(parameters) - set(entry.cls().get_params()))
    if unknown:
        raise InvalidInputError(
            f"{entry.cls.__name__} has no parameter {', '.join(unknown)} in this version;"
            " upgrade lincode."
        )
    names = values.pop("feature_names_in_", None)
    entry.check(tensors, values)
    model = entry.cls(**parameters)
    model._check_parameters()
    if names is not None:
        p = values["n_features_in_"]
        if len(names) != p or not all(isinstance(name, str) for name in names):
            raise InvalidInputError(f"feature_names_in_ must be a list of {p} names.")
        values["feature_names_in_"] = np.array(names, dtype=object)
    vars(model).update(_nest_stream(tensors | values))
    return model


def _nest_stream(attributes: dict[str, Any]) -> dict[str, Any]:
    """Combine the attributes that start with "_stream." to one object."""

    def fields(prefix: str) -> dict[str, Any]:
        found = {k.removeprefix(prefix): v for k, v in attributes.items() if k.startswith(prefix)}
        return {name: value for name, value in found.items() if "." not in name}

    own = {name: value for name, value in attributes.items() if "." not in name}
    if len(own) < len(attributes):
        stats = CodeStats(**fields("_stream.stats."))
        momentum = Momentum(**fields("_stream.momentum."))
        stream = fields("_stream.")
        if "XtX" not in stream:
            stream["XtX"] = StreamGram(**fields("_stream.XtX."), n_rows=stream["n_seen"])
        own["_stream"] = Stream(**stream, stats=stats, momentum=momentum)
    return own
