"""What the state of training in a model file or a checkpoint must be."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from lincode.core.energy import CodeStats
from lincode.core.stream_gram import StreamGram
from lincode.core.types import Array
from lincode.exceptions import InvalidInputError
from lincode.networks.scnn import Momentum
from lincode.networks.scnn_minibatch import Stream
from lincode.networks.stages import Progress
from lincode.networks.stopping import BatchStopping
from lincode.schema import (
    COUNT,
    ENERGY,
    GRAM_TOL,
    LENGTH_TOL,
    POSITIVE_COUNT,
    RIDGE,
    UNDERFLOW,
    Field,
    Flag,
    Floats,
    FloatType,
    Number,
    check_equal,
    check_fields,
)

MAX_SUMS = 2000
"""The number of units and features up to which it is checked that sums over rows are possible. The
time is that of a Cholesky decomposition, about a tenth of a second."""
NUMBER = Number(0)
"""A sum over rows, which may be as large as the squares of the data"""


@dataclass(frozen=True)
class BatchProgress:
    """The state of training on batches after a batch."""

    stream: Stream
    energy: float
    """The smoothed energy"""
    energy_path: Array
    rule: dict[str, Any]
    """The attributes of the stopping rule"""
    seed: int
    """The seed of the order of the samples"""

    @property
    def n_steps(self) -> int:
        """The number of batches that were learned."""
        return self.stream.n_batches

    @property
    def done(self) -> str:
        """What has been done, for messages."""
        return f"{self.n_steps} batch{'' if self.n_steps == 1 else 'es'}"


STATE_CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls for cls in (BatchProgress, CodeStats, Momentum, Progress, Stream, StreamGram)
}
"""The dataclasses that a checkpoint may contain."""

STREAM_FIELDS: dict[str, Field] = {
    "D": Floats("mp", atoms=True),
    "C": Floats("mp", weights=True),
    "stats.UtU": Floats("mm", gram=True),
    "stats.UtX": Floats("mp"),
    "stats.used": Floats("m", low=0),
    "stats.l1": NUMBER,
    "stats.n": NUMBER,
    "stats.residual": NUMBER,
    "momentum.D": Floats("mp", weights=True),
    "momentum.C": Floats("mp", weights=True),
    "momentum.age": COUNT,
    "precision": FloatType(),
    "n_batches": POSITIVE_COUNT,
    "n_seen": POSITIVE_COUNT,
    "n_replaced": COUNT,
    "batch_energy": ENERGY,
    "ridge": RIDGE,
}
"""The state from which ``partial_fit`` continues."""
GRAM_FIELDS: dict[str, Field] = {
    "XtX": Floats("pp", gram=True),
    "XtX.B": Floats("rp"),
    "XtX.squares": Floats("p", low=0),
}
"""XᵀX itself, or what replaces it if there are many features."""
RULE_FIELDS: dict[str, Field] = {
    "tol": NUMBER,
    "patience": POSITIVE_COUNT,
    "window_rows": COUNT,
    "min_rows": COUNT,
    "min_passes": COUNT,
    "n_seen": COUNT,
    "is_first": Flag(),
    "n_failures": COUNT,
    "best": Number(0, infinite=True),
    "n": NUMBER,
    "energy": ENERGY,
    "scale": NUMBER,
}
"""The attributes of ``BatchStopping``."""
PROGRESS_FIELDS: dict[str, Field] = {
    "D": Floats("mp", atoms=True),
    "C": Floats("mp", weights=True),
    "momentum.D": Floats("mp", weights=True),
    "momentum.C": Floats("mp", weights=True),
    "momentum.age": COUNT,
    "energy_path": Floats("t"),
    "ridge": RIDGE,
    "step_tol": NUMBER,
    "max_step_tol": NUMBER,
    "n_replaced": COUNT,
}
BATCH_FIELDS: dict[str, Field] = {
    **{f"stream.{name}": field for name, field in STREAM_FIELDS.items()},
    "energy": ENERGY,
    "energy_path": Floats("t"),
    "seed": Number(0, 2**32 - 1, integer=True),
}


def check_stream(values: dict[str, Any], prefix: str, *, online: bool = False) -> None:
    """Check that the parts of the state of a stream, which are valid, belong together.

    Parameters
    ----------
    values : dict
        All values by their names.
    prefix : str
        What the names of the state begin with.
    online : bool, default=False
        Whether XᵀX may be absent, as during plain dictionary learning.
    """
    n, used = values[f"{prefix}stats.n"], values[f"{prefix}stats.used"]
    if not n > 0 or used.max() > (1 + LENGTH_TOL) * n:
        raise InvalidInputError(
            f"{prefix}stats.n must be positive and at least {prefix}stats.used, got {n!r}."
        )
    names = [name for name in GRAM_FIELDS if f"{prefix}{name}" in values]
    if names not in (["XtX"], ["XtX.B", "XtX.squares"], *([[]] if online else [])):
        raise InvalidInputError(f"{prefix}XtX must be either complete or approximate.")
    if not names:
        return
    G = values[f"{prefix}{names[-1]}"]
    squares = G if G.ndim == 1 else np.diag(G)
    UtU, UtX = values[f"{prefix}stats.UtU"], values[f"{prefix}stats.UtX"]
    bound = np.sqrt(np.diag(UtU) + UNDERFLOW)[:, None] * np.sqrt(squares + UNDERFLOW)
    valid = (np.abs(UtX) <= (1 + GRAM_TOL) * bound).all()
    if valid and G.ndim == 2 and sum(UtX.shape) <= MAX_SUMS:
        valid = _is_gram(UtU, UtX, G, np.finfo(values[f"{prefix}precision"]).eps ** 0.5)
    if not valid:
        raise InvalidInputError(
            f"{prefix}stats.UtU, {prefix}stats.UtX and {prefix}XtX must be sums of products over"
            " the same rows."
        )


def _is_gram(UtU: Array, UtX: Array, XtX: Array, tol: float) -> bool:
    """Return whether the sums are (U X)ᵀ(U X) of any U and X, except for rounding.

    Otherwise no codes have these sums, and the energy of training could increase. This is so if the
    matrix, with its diagonal scaled to 1, has no eigenvalue below -tol.
    """
    G = np.block([[UtU, UtX], [UtX.T, XtX]]).astype(np.float64)
    roots = np.sqrt(np.diag(G) + UNDERFLOW)
    G = G / roots / roots[:, None]
    np.fill_diagonal(G, 1 + tol)
    try:
        np.linalg.cholesky(G)
    except np.linalg.LinAlgError:
        return False
    return True


def check_state(state: Any, cls: type[Any], m: int, p: int) -> None:
    """Check a state from a checkpoint of a network with m units and p features."""
    if type(state) is not cls:
        raise InvalidInputError(f"the state must be a {cls.__name__}, got {type(state).__name__}.")
    values, sizes = _flat(state), {"m": m, "p": p}
    if cls is Progress:
        check_fields(values, PROGRESS_FIELDS, {}, sizes, "the state")
        return
    rule = values.pop("rule", None)
    if not isinstance(rule, dict):
        raise InvalidInputError("the state must contain the stopping rule.")
    _check_rule(rule)
    # These are None in the first passes of plain dictionary learning.
    optional = {f"stream.{name}": field for name, field in GRAM_FIELDS.items()}
    optional |= {name: BATCH_FIELDS[name] for name in ("stream.ridge",)}
    optional |= {"stream.XtX.n_rows": NUMBER, "stream.stats.prediction_error": NUMBER}
    required = {name: field for name, field in BATCH_FIELDS.items() if name not in optional}
    check_fields(values, required, optional, sizes, "the state")
    check_stream(values, "stream.", online=True)
    check_equal(
        "the length of energy_path",
        len(state.energy_path),
        "stream.n_batches",
        state.stream.n_batches,
    )


def _check_rule(rule: dict[str, Any]) -> None:
    present = {name: value for name, value in rule.items() if value is not None}
    fields = {name: field for name, field in RULE_FIELDS.items() if name != "patience"}
    check_fields(present, fields, {"patience": RULE_FIELDS["patience"]}, {}, "the stopping rule")
    check_equal(
        "the stopping rule", set(rule), "that of lincode", set(vars(BatchStopping(0, 1, 1)))
    )


def _flat(state: Any, prefix: str = "") -> dict[str, Any]:
    """Return the values in nested dataclasses that are not None, with dots between the names."""
    values: dict[str, Any] = {}
    for field in fields(state):
        value = getattr(state, field.name)
        if is_dataclass(value):
            values |= _flat(value, f"{prefix}{field.name}.")
        elif value is not None:
            values[f"{prefix}{field.name}"] = value
    return values
