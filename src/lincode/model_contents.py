"""Convert fitted estimators to arrays and JSON values, and back.

:mod:`lincode.model_schema` lists what is stored for each class. ``pack`` and ``unpack`` do not read
or write files; :mod:`lincode.model_file` writes and reads their results.
"""

from __future__ import annotations

import os
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lincode.core.energy import CodeStats
from lincode.core.stream_gram import StreamGram
from lincode.exceptions import InvalidInputError
from lincode.model_schema import MODEL_CLASSES, PARAMETER
from lincode.networks.scnn import Momentum
from lincode.networks.scnn_minibatch import Stream
from lincode.schema import some_names
from lincode.tensor_file import from_json, to_json

NOT_STORED = ("checkpoint_path",)
"""Parameters that are not stored. A checkpoint belongs to one training, and a loaded model must not
write to a file that its own file names."""


def is_own(model: Any) -> bool:
    """Return whether a model is one of the networks that are stored here."""
    entry = MODEL_CLASSES.get(type(model).__name__)
    return entry is not None and type(model) is entry.cls


def forget_paths(model: Any) -> None:
    """Set the parameters that are not stored to None."""
    model.set_params(**{name: None for name in NOT_STORED if name in model.get_params(deep=False)})


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
    if not is_own(model):
        raise InvalidInputError(
            f"model must be one of {', '.join(MODEL_CLASSES)}, SCNNCV, or a fitted pipeline or"
            f" estimator of scikit-learn, got {type(model).__name__}."
        )
    entry = MODEL_CLASSES[type(model).__name__]
    check_is_fitted(model)
    model._check_parameters()
    arrays = {name: np.asarray(attrgetter(name)(model)) for name in entry.arrays()}
    optional = {name: _array_or_none(model, name) for name in entry.arrays(optional=True)}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    values = {name: attrgetter(name)(model) for name in entry.values()}
    if hasattr(model, "feature_names_in_"):
        values["feature_names_in_"] = [str(name) for name in model.feature_names_in_]
    entry.check(arrays | values)
    parameters, tensors, left_out = _pack_parameters(model)
    tensors |= arrays
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
    """Return a nested attribute if it exists. It must be an array."""
    try:
        value = attrgetter(name)(model)
    except AttributeError:
        return None
    if isinstance(value, StreamGram):  # its parts are stored
        return None
    if not isinstance(value, np.ndarray):
        raise InvalidInputError(f"{name} must be an array, got {type(value).__name__}.")
    return value


def _pack_parameters(model: Any) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return parameters for JSON, parameters that are arrays, and names of all others."""
    values, tensors, left_out = {}, {}, []
    for name, value in model.get_params(deep=False).items():
        if name in NOT_STORED:
            continue
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
        array = tensors.pop(name)
        if not np.isfinite(array).all():
            raise InvalidInputError(f"{some_names([name])} must be finite.")
        parameters[name.removeprefix(PARAMETER)] = array
    unknown = sorted(set(parameters) - set(entry.cls().get_params()))
    if unknown:
        raise InvalidInputError(
            f"{entry.cls.__name__} has no parameter {some_names(unknown)} in this version;"
            " upgrade lincode."
        )
    if set(tensors) & set(values):
        raise InvalidInputError("an attribute is stored both as an array and as a value.")
    attributes = tensors | values
    entry.check(attributes)
    kept = {name: value for name, value in parameters.items() if name not in NOT_STORED}
    model = entry.cls(**kept)
    model._check_parameters()
    if "feature_names_in_" in attributes:
        attributes["feature_names_in_"] = np.array(attributes["feature_names_in_"], dtype=object)
    vars(model).update(_nest_stream(attributes))
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
