"""Pictures of the atoms and filters of each network, on digits and on patches."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lincode.plotting import AtomsDisplay
from paper.experiments.claims import Claim
from paper.experiments.experiment import Experiment, Plot, Record, Run, Scale, Table
from paper.experiments.networks import NETWORKS, build, network_of, parameters_of
from paper.experiments.samples import Samples

DIGITS, PATCHES = "digits", "patches"
LAMS = {
    DIGITS: {"SCNN": 0.3, "ASCNN": 0.2, "SAANN": 0.2, "Sparsenet": 1.0},
    PATCHES: {"SCNN": 0.4, "ASCNN": 12.0, "SAANN": 0.1, "Sparsenet": 0.2},
}
"""For patches, values that are chosen in Figure 3 with 30 % missing pixels. For digits, values that
are larger than those with the best accuracy where these are close to 0, because then the atoms are
not sparse."""
RIDGE = "SCNN, ridge"
OWN: dict[str, dict[str, float]] = {RIDGE: {"encoder_ridge": 0.3}}
SHOWN = [*NETWORKS, RIDGE]
"""The networks, and SCNN with a ridge on the encoder, which the paper does not have."""
SIDES = {DIGITS: 14, PATCHES: 8}
KINDS = ("atoms", "filters")


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network on digits. The patches are a second experiment because they need other data."""
    return make_runs(scale, seed, embedded, DIGITS)


def patch_runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network on patches."""
    return make_runs(scale, seed, embedded, PATCHES)


def make_runs(scale: Scale, seed: int, embedded: bool, data: str) -> list[Run]:
    """Each network on one kind of data."""
    n, m = {"smoke": ([100, 1, 1], 16), "paper": ([2000, 1, 1], 64)}[scale]
    # Embedded digits are smaller.
    side = 4 if embedded and data == DIGITS else SIDES[data]
    return [
        Run(
            "pictures",
            scale,
            seed,
            embedded,
            {
                "network": x,
                "data": data,
                "m": m,
                "side": side,
                "lam": LAMS[data][network_of(x)],
                "n": n,
                **({"own": OWN[x]} if x in OWN else {}),
            },
        )
        for x in SHOWN
    ]


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return the atoms and filters as strings."""
    settings = run.settings
    n = tuple(settings["n"])
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if settings["data"] == DIGITS:
            X = samples.digits(n, run.seed, SIDES[DIGITS]).train
        else:
            X = samples.patches(n, run.seed).train
            X = X / X.std()
        own = settings.get("own", {})
        network = build(settings["network"], settings["m"], settings["lam"], run.seed, **own)
        network.fit(X)
    found: dict[str, Any] = {"atoms": encode_pictures(network.components_)}
    if hasattr(network, "encoder_"):
        found["filters"] = encode_pictures(network.encoder_)
    return found | {"parameters": parameters_of(network)}


def encode_pictures(W: Any) -> str:
    """Return the rows of W, each divided by its largest absolute value, as 8-bit integers.

    The integers are from −127 to 127, in base64.
    """
    largest = np.abs(W).max(axis=1, keepdims=True)
    scaled = np.divide(W, largest, out=np.zeros_like(W), where=largest > 0)
    return base64.b64encode(np.round(127 * scaled).astype(np.int8).tobytes()).decode()


def decode_pictures(text: str, side: int) -> Any:
    """Return the pictures of a string, one per row, with entries in [−1, 1]."""
    integers = np.frombuffer(base64.b64decode(text), dtype=np.int8)
    return integers.reshape(-1, side**2) / 127


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return no claims: the paper makes none about the atoms."""
    return []


def tables(records: Sequence[Record]) -> list[Table]:
    """Return no tables."""
    return []


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot the atoms of all networks in the first row and their filters in the second."""
    found = {record["network"]: record for record in records}
    shown = [x for x in SHOWN if x in found]
    figure.set_size_inches(3.0 * len(shown), 7.2)
    panels = figure.subplots(len(KINDS), len(shown), squeeze=False)
    for axes_row, kind in zip(panels, KINDS, strict=True):
        for axes, above, x in zip(axes_row, panels[0], shown, strict=True):
            axes.set_axis_off()
            record = found[x]
            if kind in record.result:
                AtomsDisplay(decode_pictures(record[kind], record["side"])).plot(ax=axes)
                title = f"{x}\n{kind}, λ = {record['lam']:g}"
            else:
                # Empty axes have the shape of the others, so that their titles are level.
                axes.set(xlim=above.get_xlim(), ylim=above.get_ylim(), aspect="equal")
                title = f"{x}\nno {kind}"
            axes.set_title(title, fontsize=15)


PROTOCOL = (
    "Each picture is one row of the dictionary (atom) or of the encoder (filter) of a network with"
    " 64 units, divided by its largest absolute value: red is positive and blue is negative.",
    "The networks have the library's default length of training. “SCNN, ridge” has a ridge on the"
    " encoder (encoder_ridge=0.3), which the paper does not have.",
)


def experiment(name: str, title: str, needs: Any, text: str, make: Any) -> Experiment:
    """Return the experiment of one kind of data."""
    plots: dict[str, Plot] = {name: plot}
    captions = {name: "Atoms (first row) and filters (second row). Sparsenet has no encoder."}
    departures = ("The paper shows no such pictures.",)
    protocol = (text, *PROTOCOL)
    return Experiment(
        name,
        title,
        needs,
        protocol,
        make,
        claims,
        tables,
        plots,
        captions,
        departures,
        has_claims=False,
    )


DIGIT_EXPERIMENT = experiment(
    "pictures-digits",
    "Pictures of digits: atoms and filters",
    "mnist",
    "2000 digits of 14×14 pixels. Without a ridge, the largest weights of SCNN's filters are at the"
    " border, where pixels hardly vary.",
    runs,
)
PATCH_EXPERIMENT = experiment(
    "pictures-patches",
    "Pictures of patches: atoms and filters",
    "bsds300",
    "2000 patches of 8×8 pixels, each centred to mean 0, and all scaled to a standard deviation of"
    " 1, as in Figure 3.",
    patch_runs,
)
