"""What a model file contains for each class, and what it must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.scnn import SCNN
from lincode.estimators.stored_state import GRAM_FIELDS, STREAM_FIELDS, check_stream
from lincode.exceptions import InvalidInputError
from lincode.schema import (
    COUNT,
    ENERGY,
    FRACTION,
    LARGEST,
    LENGTH_TOL,
    MAGNITUDE,
    POSITIVE_COUNT,
    RIDGE,
    Field,
    Flag,
    Floats,
    Number,
    NumberDict,
    Text,
    check_equal,
    check_fields,
    check_names,
    check_products,
    shown,
)

PARAMETER = "parameter."
"""Prefix of arrays that are constructor parameters. Other arrays are fitted attributes."""
STREAM = "_stream."
"""Prefix of the state from which ``partial_fit`` continues."""
Values = dict[str, Any]


@dataclass(frozen=True)
class Names:
    """A list of as many strings as there are features."""

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See ``Field``."""
        valid = type(value) is list and len(value) == sizes["p"]
        if not valid or not all(type(entry) is str for entry in value):
            raise InvalidInputError(
                f"{name} must be a list of {sizes['p']} names, got {shown(value)}."
            )


@dataclass(frozen=True)
class ModelClass:
    """The fitted attributes that are stored for one class. Dots separate nested attributes.

    In shapes, m is n_components and p is n_features.
    """

    cls: type[Any]
    fields: dict[str, Field]
    optional: dict[str, Field] = field(default_factory=dict)
    """Attributes that exist only for some parameters"""
    checks: tuple[Callable[[Values], None], ...] = ()
    """What the attributes together must satisfy"""

    def check(self, values: Values) -> None:
        """Check that exactly these attributes are present, valid and consistent."""
        optional = {"feature_names_in_": Names(), **self.optional}
        check_names(values, self.fields, optional, self.cls.__name__)
        POSITIVE_COUNT.check("n_features_in_", values["n_features_in_"], {})
        m = np.atleast_1d(values["components_"]).shape[0]
        sizes = {"m": m, "p": int(values["n_features_in_"])}
        check_fields(values, self.fields, optional, sizes, self.cls.__name__)
        for check in self.checks:
            check(values)

    def arrays(self, *, optional: bool = False) -> list[str]:
        """Return the names of the attributes that are arrays."""
        fields = self.optional if optional else self.fields
        return [name for name, entry in fields.items() if isinstance(entry, Floats)]

    def values(self) -> list[str]:
        """Return the names of the other attributes that always exist."""
        return [name for name, entry in self.fields.items() if not isinstance(entry, Floats)]


def check_energies(values: Values) -> None:
    """Check that the path of energies ends with the energy, and that there is one per iteration."""
    path = values["energy_path_"]
    check_equal("energy_", values["energy_"], "the last entry of energy_path_", path[-1])
    check_equal("n_iter_", values["n_iter_"], "the length of energy_path_ minus 1", len(path) - 1)


def check_dtypes(values: Values) -> None:
    """Check that dictionary and encoder have the same dtype."""
    C, D = values["encoder_"], values["components_"]
    check_equal("the dtype of encoder_", C.dtype.name, "that of components_", D.dtype.name)


def check_refinement(values: Values) -> None:
    """Check that a refined encoder has a decoder."""
    if "refined_encoder_" in values and "decoder_" not in values:
        raise InvalidInputError("decoder_ is missing, but refined_encoder_ needs it.")


def check_calibration(values: Values) -> None:
    """Check that codes with gains, and reconstructions by the decoder, do not overflow."""
    C, gains = values["encoder_"], values["gains_"]
    check_products("encoder_ and gains_", C, gains)
    if "decoder_" in values:
        D = values["decoder_"]
        if values["calibrated_gains_"]:
            check_products("encoder_, gains_ and decoder_", C, gains, D)
        else:
            check_products("encoder_ and decoder_", C, D)
        if "refined_encoder_" in values:
            check_products("refined_encoder_ and decoder_", values["refined_encoder_"], D)


def check_batches(values: Values) -> None:
    """Check that the state of the stream belongs together and to the attributes of the network."""
    check_stream(values, STREAM)
    for name, other in (
        ("n_steps_", "n_batches"),
        ("n_samples_seen_", "n_seen"),
        ("n_replaced_atoms_", "n_replaced"),
    ):
        check_equal(name, values[name], STREAM + other, values[STREAM + other])
    steps, path = values["n_steps_"], values["energy_path_"]
    check_equal("n_steps_", steps, "the length of energy_path_", len(path))


FITTED: dict[str, Field] = {
    "n_features_in_": POSITIVE_COUNT,
    "energy_": ENERGY,
    "n_iter_": COUNT,
    "stop_reason_": Text(length=500),
    "energy_path_": Floats("t"),
}
SCNN_FIELDS: dict[str, Field] = FITTED | {
    "components_": Floats("mp", atoms=True),
    "encoder_": Floats("mp", weights=True),
    "usage_": Floats("m", low=0, high=FRACTION.high),
    "gains_": Floats("m", low=0, high=LARGEST),
    "alpha_": MAGNITUDE,
    "matching_threshold_": MAGNITUDE,
    "matching_density_": FRACTION,
    "encoder_ridge_": RIDGE,
    "noise_variance_": Number(0),
    "encoder_r2_": Number(high=1 + LENGTH_TOL),
    "calibrated_mode_": Text(("hard", "soft", "top_k")),
    "calibrated_gains_": Flag(),
    "refined_threshold_": MAGNITUDE,
    "n_replaced_atoms_": COUNT,
}
SCNN_OPTIONAL: dict[str, Field] = {
    "decoder_": Floats("mp", low=-LARGEST, high=LARGEST),
    "refined_encoder_": Floats("mp", weights=True),
}
OPTIMALITY = NumberDict(frozenset(("codes", "dictionary", "encoder", "joint")), Number(0))
MINIBATCH_FIELDS: dict[str, Field] = {
    "n_steps_": POSITIVE_COUNT,
    "n_samples_seen_": POSITIVE_COUNT,
    **{STREAM + name: entry for name, entry in STREAM_FIELDS.items()},
}
MINIBATCH_OPTIONAL: dict[str, Field] = {STREAM + name: entry for name, entry in GRAM_FIELDS.items()}
MODEL_CLASSES = {
    entry.cls.__name__: entry
    for entry in (
        ModelClass(
            SCNN,
            SCNN_FIELDS | {"optimality_": OPTIMALITY},
            SCNN_OPTIONAL,
            (check_energies, check_dtypes, check_refinement, check_calibration),
        ),
        ModelClass(
            MiniBatchSCNN,
            SCNN_FIELDS | MINIBATCH_FIELDS,
            SCNN_OPTIONAL | MINIBATCH_OPTIONAL,
            (check_batches, check_dtypes, check_refinement, check_calibration),
        ),
    )
}
"""The only classes that can be stored and loaded."""
