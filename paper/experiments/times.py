"""Figures 6 and 7: seconds to train, and to code validation digits, by number of units."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from lincode import MiniBatchSCNN
from paper.cache import Record, Run, Scale
from paper.experiments.claims import Claim, Estimate, median_of, verdict_of_number
from paper.experiments.digits import ALGORITHM_1, OWN, STOP, cpu_seconds, short
from paper.experiments.networks import (
    COLOURS,
    NETWORKS,
    PAPER_ENCODER,
    build,
    network_of,
    parameters_of,
)
from paper.experiments.tables import Experiment, Table, collect, span, table_of
from paper.samples import Samples

LEARNING, CODING = "fit_seconds", "encode_seconds"
OTHER_PASSES: dict[str, dict[str, float]] = {
    "ASCNN, 2 passes": {"max_iter": 2},
    "SAANN, 2 passes": {"max_iter": 2},
    "Sparsenet, 30 passes": {"max_iter": 30},
}
"""Other lengths of training, which are not part of the claims."""
TIMED = [*NETWORKS, *OTHER_PASSES]
LAMS = {
    x: [0.01, 0.5, 3.0, 20.0] if network_of(x) == "Sparsenet" else [0.01, 0.1, 0.4, 1.0]
    for x in TIMED
}
BATCHES, DEEP, SPARSE = "SCNN, mini-batches", "deep belief network", "sparse coding (scikit-learn)"
COMPARED: dict[str, dict[str, Any]] = {
    "Algorithm 1": {
        "networks": [*NETWORKS, ALGORITHM_1],
        "lams": {x: [0.5 if x == "Sparsenet" else 0.1] for x in (*NETWORKS, ALGORITHM_1)},
        "stop": STOP | {ALGORITHM_1: OWN[ALGORITHM_1]},
    },
    "other methods": {
        "networks": ["SCNN", DEEP, SPARSE],
        "lams": {"SCNN": [0.5], DEEP: [0.0], SPARSE: [1.0]},
        "stop": {"SCNN": {}, DEEP: {}, SPARSE: {}},
    },
    "mini-batches": {
        "networks": [BATCHES, DEEP],
        "lams": {BATCHES: [0.5], DEEP: [0.0]},
        "stop": {BATCHES: {}, DEEP: {}},
    },
}
"""Other comparisons, with one λ. That of scikit-learn is that of SCNN, λ p/m = 0.98."""
CODING_REPETITIONS, LONG_SECONDS = 11, 0.1
"""Coding is timed as the median of so many repetitions, or once if it takes so many seconds."""


def runs(scale: Scale, embedded: bool) -> list[Run]:
    """Each number of units with all networks, on three samples of digits."""
    n, sizes, rounds, repetitions = {
        "smoke": ([100, 100, 100], [5, 10], 1, 1),
        "paper": ([500, 500, 500], [25, 50, 75, 100, 125, 150], 2, 3),
    }[scale]
    settings = {"side": 14, "n": n, "lams": LAMS, "stop": STOP | OTHER_PASSES, "rounds": rounds}
    found = [
        Run("times", scale, k, embedded, {"m": m, **settings})
        for k in range(repetitions)
        for m in sizes
    ]
    small = scale == "smoke"
    others = [("Algorithm 1", m, 14, n) for m in (sizes[:1] if small else (25, 100))]
    others += [
        ("other methods", 10 if small else 400, 28, n if small else [2000, 1000, 0]),
        ("mini-batches", 10 if small else 400, 28, n if small else [10_000, 1000, 0]),
    ]
    for name, m, side, n_own in others:
        own = {"m": m, "side": side, "n": n_own, "rounds": 1, **COMPARED[name]}
        found.append(Run("times", scale, 0, embedded, own))
    return found


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return for each network the seconds to train and to code, for each round and λ.

    The networks take turns, each with the same digits, so that a change of the machine's speed
    affects all of them. One thread is used and its CPU time is measured.
    """
    settings = run.settings
    timed = settings.get("networks", TIMED)
    seconds: dict[str, Any] = {x: {LEARNING: [], CODING: []} for x in timed}
    with threadpool_limits(1), warnings.catch_warnings():
        # With λ at the ends of the paper's ranges all codes are zero, which causes warnings.
        warnings.simplefilter("ignore")
        data = samples.digits(tuple(settings["n"]), run.seed, settings["side"])

        def network_for(x: str, k: int) -> Any:
            lam = settings["lams"][x][k]
            own = {"seed": run.seed, **settings["stop"][x]}
            return OTHER_METHODS.get(x, partial(build, x))(settings["m"], lam, **own)

        for x in timed:  # code is compiled and loaded when it is used for the first time
            for k in range(len(settings["lams"][x])):
                network_for(x, k).fit(data.train).transform(data.val)
        for _ in range(settings["rounds"]):
            for k in range(len(settings["lams"][timed[0]])):
                for x in timed:
                    network = network_for(x, k)
                    learning = cpu_seconds(lambda network=network: network.fit(data.train))  # type: ignore[misc]
                    seconds[x][LEARNING].append(short(learning))
                    seconds[x][CODING].append(short(encode_seconds(network, data.val)))
        estimators = [network_for(x, 0) for x in timed if x not in OTHER_PASSES]
    return seconds | {"parameters": parameters_of(*estimators, without=["alpha"])}


def deep_belief_network(m: int, lam: float, seed: int) -> Any:
    """Return the unfitted network of Table 1, of 500 and 1000 units, or m in small runs."""
    layers = [
        BernoulliRBM(k, learning_rate=0.05, batch_size=100, n_iter=10, random_state=seed)
        for k in ((500, 1000) if m >= 400 else (m, m))
    ]
    return make_pipeline(FunctionTransformer(lambda X: (X + 1) / 2), *layers)


def sparse_coding(m: int, lam: float, seed: int) -> Any:
    """Return the unfitted dictionary learning of Table 1."""
    names = ("alpha", "transform_alpha")
    return MiniBatchDictionaryLearning(
        m,
        batch_size=512,
        max_iter=5,
        fit_algorithm="cd",
        transform_algorithm="lasso_cd",
        random_state=seed,
        **dict.fromkeys(names, lam),
    )


def mini_batches(m: int, lam: float, seed: int) -> Any:
    """Return the unfitted network of Table 2."""
    return MiniBatchSCNN(m, alpha=lam, random_state=seed, **PAPER_ENCODER)


OTHER_METHODS: dict[str, Callable[..., Any]] = {
    BATCHES: mini_batches,
    DEEP: deep_belief_network,
    SPARSE: sparse_coding,
}


def encode_seconds(network: Any, X: Any) -> float:
    """Return the CPU seconds to compute the codes of X."""
    seconds = [cpu_seconds(lambda: network.transform(X))]
    while len(seconds) < CODING_REPETITIONS and seconds[0] < LONG_SECONDS:
        seconds.append(cpu_seconds(lambda: network.transform(X)))
    return float(np.median(seconds))


def times(records: Sequence[Record], phase: str, networks: Sequence[str] = TIMED) -> pd.DataFrame:
    """Return the seconds for all rounds, λ and repetitions, by network and number of units.

    They are those of the runs of these networks.
    """
    own = [r for r in records if r.run.settings.get("networks", TIMED) == networks]
    return collect(
        ((x, r["m"], seconds) for r in own for x in networks for seconds in r[x][phase]), networks
    )


def median_and_quartiles(values: Sequence[float], unit: float) -> str:
    """Return the median, and in brackets the quartiles, as text."""
    low, median, high = unit * np.percentile(values, [25, 50, 75])
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figures 6 and 7, and about the costs of other methods."""
    learning, coding = (times(records, phase) for phase in (LEARNING, CODING))
    if learning.empty:
        return []
    by_length = {
        "as shown": {x: x for x in NETWORKS},
        "others": {x: x for x in NETWORKS} | LENGTHS,
    }
    learned = {x: ratios(learning, names) for x, names in by_length.items()}
    algorithm = times(records, LEARNING, COMPARED["Algorithm 1"]["networks"])
    if not algorithm.empty:
        learned["Algorithm 1"] = ratios(algorithm, {x: x for x in NETWORKS} | {"SCNN": ALGORITHM_1})
    # The time to code depends on the training of Sparsenet only, which is slower after 30 passes.
    coded = {"": ratios(coding, by_length["as shown"])}
    slower = {
        reading: {
            m: min(
                (ratio_of(coding, names["Sparsenet"], x, m) for x in NETWORKS if x != "Sparsenet"),
                key=lambda ratio: ratio.value,
            )
            for m in coding
        }
        for reading, names in by_length.items()
    }
    found = [
        Claim(
            "SCNN learns fastest with every number of units.",
            "faster",
            {x: ratios_text(own) for x, own in learned.items()},
            {x: slower_by(own) for x, own in learned.items()},
            choice="length",
        ),
        Claim(
            "Sparsenet takes an order of magnitude longer to code than the slowest of the others.",
            "10 times",
            {
                x: f"{span((ratio.value for ratio in own.values()), '.2g')} times"
                for x, own in slower.items()
            },
            {x: [ratio.distance_to(5, 20) for ratio in own.values()] for x, own in slower.items()},
            verdict_of_number,
            "length",
        ),
        Claim(
            "SCNN codes fastest with every number of units.",
            "faster",
            {x: ratios_text(own) for x, own in coded.items()},
            {x: slower_by(own) for x, own in coded.items()},
        ),
    ]
    for name, label in ((DEEP, "a deep belief network"), (SPARSE, "scikit-learn's sparse coding")):
        costs = {}
        for reading, (scnn, group) in TRAININGS.items():
            names = COMPARED[group]["networks"]
            seconds = [times(records, phase, names) for phase in (LEARNING, CODING)]
            if name in names and not seconds[0].empty:
                costs[reading] = [ratio_of(own, name, scnn, own.columns[0]) for own in seconds]
        found.append(
            Claim(
                f"SCNN is cheaper than {label} in learning and coding.",
                "cheaper",
                {
                    x: " and ".join(f"{float(f'{r.value:.2g}'):g}" for r in own) + " times"
                    for x, own in costs.items()
                },
                {x: [ratio - 1 for ratio in own] for x, own in costs.items()},
                choice="number of digits",
            )
        )
    return found


TRAININGS = {"2000 digits": ("SCNN", "other methods"), "10,000 digits": (BATCHES, "mini-batches")}


def slower_by(ratios: Mapping[str, Sequence[Estimate]]) -> list[Estimate]:
    """Return by how much the ratios exceed 1."""
    return [ratio - 1 for own in ratios.values() for ratio in own]


LENGTHS = {x.partition(",")[0]: x for x in OTHER_PASSES}
"""The other length of training of each network."""


def ratios(seconds: pd.DataFrame, names: Mapping[str, str]) -> dict[str, list[Estimate]]:
    """Return for each network the ratios of its times to those of SCNN, by number of units.

    ``names`` are the rows of the networks.
    """
    return {
        x: [ratio_of(seconds, row, names["SCNN"], m) for m in seconds]
        for x, row in names.items()
        if x != "SCNN"
    }


def ratios_text(found: Mapping[str, Sequence[Estimate]]) -> str:
    """Return the smallest and the largest ratio of each network as text."""
    return (
        ", ".join(f"{x} {span((ratio.value for ratio in own), '.2g')}" for x, own in found.items())
        + " times"
    )


def ratio_of(seconds: pd.DataFrame, one: str, other: str, m: int) -> Estimate:
    """Return the median of the ratios of the times of two networks.

    Each ratio is that of times which were measured one after the other: on the same digits, in the
    same round, and with the λ at the same place of both lists.
    """
    return median_of(np.divide(seconds.loc[one, m], seconds.loc[other, m]))


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the tables of both figures."""
    n, n_val, _ = next(r["n"] for r in records if "networks" not in r.run.settings)
    return [
        time_table("times-learning", f"Seconds to learn from {n} digits", records, LEARNING, 1),
        time_table(
            "times-validation",
            f"Milliseconds to code {n_val} validation digits",
            records,
            CODING,
            1000,
        ),
    ]


def time_table(name: str, title: str, records: Sequence[Record], phase: str, unit: float) -> Table:
    """Return a table of times: median and quartiles over λ and repetitions."""
    title = f"{title}: median (first to third quartile) over λ and repetitions"
    return table_of(
        name, title, "units", times(records, phase), lambda v: median_and_quartiles(v, unit)
    )


def plot_bars(figure: Any, found: pd.DataFrame, unit: float, label: str) -> None:
    """Plot the median for each network and number of units, with a line between the quartiles."""
    axes = figure.subplots()
    width = 0.8 / len(found)
    for k, (x, row) in enumerate(found.iterrows()):
        row = row.dropna()
        median = unit * row.map(np.median)
        quartiles = [unit * row.map(lambda v, q=q: np.percentile(v, q)) for q in (25, 75)]
        axes.bar(
            found.columns.get_indexer(row.index) + width * (k - (len(found) - 1) / 2),
            median,
            width,
            yerr=[median - quartiles[0], quartiles[1] - median],
            label=x,
            color=COLOURS[str(x)],
            capsize=2,
        )
    axes.set_xticks(range(found.shape[1]), [str(m) for m in found.columns])
    axes.set(xlabel="units", ylabel=label)
    axes.legend()


def plot_learning(figure: Any, records: Sequence[Record]) -> None:
    """Plot Figure 6."""
    plot_bars(figure, times(records, LEARNING).loc[list(NETWORKS)], 1, "CPU seconds to learn")


def plot_coding(figure: Any, records: Sequence[Record]) -> None:
    """Plot Figure 7. Sparsenet is left out because its bars are much too long."""
    found = times(records, CODING).loc[[x for x in NETWORKS if x != "Sparsenet"]]
    plot_bars(figure, found, 1000, "CPU milliseconds to code 500 digits")


EXPERIMENT = Experiment(
    "times",
    "Figures 6 and 7: times to learn and to code",
    "mnist",
    runs,
    claims,
    tables,
    {"figure-6-times-learning": plot_learning, "figure-7-times-validation": plot_coding},
)
