"""Which scale of the data, and which ratio, makes a good default of SCNN's ``alpha``?

    python benchmarks/alpha_scale.py > benchmarks/alpha_scale.md

The script trains SCNN on every data set of ``alpha_data.py`` for several numbers of units m and
for alphas that halve from ``alpha_max`` on. The candidate rules for alpha differ in units only,
so one set of fits serves all of them: the density (the fraction of non-zero codes) that a rule
gives is interpolated linearly in log(alpha). The best rules are then trained without
interpolation. The script takes 10 to 12 minutes on one core.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from alpha_data import DataSet, data_sets
from numpy.typing import NDArray
from scipy import sparse

from lincode import SCNN, MiniBatchSCNN

Floats = NDArray[np.float64]

LOW, HIGH = 0.05, 0.60
"""The densities that count as useful."""

TRAINING: dict[str, Any] = dict(threshold="match", random_state=0, n_jobs=1)
"""Parameters of every network."""

SCNN_TRAINING: dict[str, Any] = dict(**TRAINING, max_iter=50, tol=1e-3)
"""Parameters of SCNN where nothing else is said."""

EXACT: dict[str, Any] = dict(transform_algorithm="exact", transform_tol=1e-4)
"""Parameters that make ``transform`` return exact codes."""

STATISTICS: dict[str, Callable[[Floats], float]] = {
    "max": lambda lengths: float(lengths.max()),
    "rms": lambda lengths: float(np.sqrt(np.mean(lengths**2))),
    "mean": lambda lengths: float(lengths.mean()),
    "median": lambda lengths: float(np.median(lengths)),
}
"""Statistics of the row lengths."""

FACTORS: dict[str, float] = {"m/p": 1.0, "√m/p": 0.5, "1/p": 0.0}
"""Factors of the statistic, and the power of m in each."""

RATIOS = np.geomspace(0.001, 10, 161)
"""The ratios that are compared, 40 per factor of ten."""

SHOWN_RATIOS = {
    "m/p": (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5),
    "√m/p": (0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0),
}
"""The ratios that the table of all data shows."""

VARIANTS: dict[str, dict[str, Any]] = {
    "encoder_weight=0": dict(encoder_weight=0.0),
    "encoder_weight=1": {},
    "encoder_weight=10": dict(encoder_weight=10.0),
    "float32": {},
    "tol=1e-4": dict(tol=1e-4, max_iter=200),
    "MiniBatchSCNN": dict(batch_size=500),
}
"""Settings to train the best rules with; "float32" also converts the data."""

VARIANT_DATA = (
    *("digits", "digits, centred", "MNIST 14×14", "photo patches, row mean removed"),
    *("TF-IDF, 2000 × 500", "LSA of text", "low rank + noise", "MLP activations"),
    *("white noise", "spectra", "planted dictionary", "breast cancer, StandardScaler"),
    *("heavy-tailed", "planted, 15 of 1500 rows × 100"),
)
"""Names of the data sets to train the variants on."""


@dataclass(frozen=True)
class Rule:
    """alpha = ratio × a statistic of the row lengths × a factor of m and p."""

    statistic: str
    factor: str
    ratio: float = 1.0

    def __str__(self) -> str:
        return f"{self.ratio:g} × {self.statistic} × {self.factor}"

    def alpha(self, lengths: Floats, m: int, p: int) -> float:
        scale = STATISTICS[self.statistic](lengths) * np.power(m, FACTORS[self.factor]) / p
        return self.ratio * float(scale)


@dataclass(frozen=True)
class Figures:
    """What is measured of one trained network."""

    trained: float
    """Density of the trained codes."""
    encoder: float
    """Density of the encoder's codes of held-out rows."""
    error: float
    """‖X − U D‖² / ‖X‖² of held-out rows with their exact codes."""


@dataclass(frozen=True)
class Case:
    """One data set and one number of units, with the figures of the trained alphas."""

    data: DataSet
    m: int
    lengths: Floats
    alphas: Floats
    figures: list[Figures]

    @property
    def name(self) -> str:
        return f"{self.data.name}, m = {self.m}"

    def alpha(self, rule: Rule) -> float:
        return rule.alpha(self.lengths, self.m, self.data.X.shape[1])

    def interpolated(self, field: str, alpha: float) -> float:
        """The figure at ``alpha``, or at the smallest trained alpha if that is larger.

        An alpha of zero, the median of rows that are mostly blank, counts as dense codes.
        """
        if alpha == 0:
            return float(getattr(Figures(1.0, 1.0, 0.0), field))
        values = [getattr(figures, field) for figures in self.figures]
        log_alpha = np.log(max(alpha, self.alphas[0]))
        return float(np.interp(log_alpha, np.log(self.alphas), values))


def margin(density: Any) -> Any:
    """How far inside the useful range densities are, as a factor; below 1 they are outside.

    The factor is that of the non-zero codes to their least fraction, or that of the zeros.
    """
    return np.minimum(density / LOW, (1 - density) / (1 - HIGH))


def row_lengths(X: Any) -> Floats:
    squared = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.square(X).sum(axis=1)
    return np.sqrt(np.asarray(squared, dtype=np.float64)).ravel()


def split(X: Any) -> tuple[Any, Any]:
    """The first three quarters of the rows to train on and the rest, held out."""
    n = 3 * X.shape[0] // 4
    return X[:n], X[n:]


def train(X: Any, m: int, alpha: float, **parameters: Any) -> Figures:
    """Train SCNN, or MiniBatchSCNN if ``batch_size`` is given, on three quarters of X."""
    fitted, held_out = split(X)
    if "batch_size" in parameters:
        network: Any = MiniBatchSCNN(m, alpha, **{**TRAINING, **parameters}).fit(fitted)
    else:
        network = SCNN(m, alpha, **{**SCNN_TRAINING, **parameters}).fit(fitted)
    encoder = float(np.mean(network.transform(held_out) != 0))
    codes = network.set_params(**EXACT).transform(held_out)
    rows = held_out.toarray() if sparse.issparse(held_out) else held_out
    residual = rows - network.inverse_transform(codes)
    error = float(np.square(residual).sum() / np.square(rows).sum())
    return Figures(float(network.usage_.mean()), encoder, error)


def measure(data: DataSet, m: int) -> Case:
    """Train for alphas that halve, until codes are dense or alpha is tiny for a typical row."""
    lengths = row_lengths(split(data.X)[0])
    unit = m / data.X.shape[1]
    alphas = [lengths.max() * unit]
    figures = [Figures(0.0, 0.0, 1.0)]  # at alpha_max every code is zero
    smallest = 0.03 * float(np.median(lengths[lengths > 0])) * unit
    while alphas[-1] > smallest and figures[-1].trained < 0.8:
        alphas.append(alphas[-1] / 2)
        figures.append(train(data.X, m, alphas[-1]))
    return Case(data, m, lengths, np.array(alphas[::-1]), figures[::-1])


def densities(cases: Iterable[Case], rule: Rule, field: str = "trained") -> Floats:
    return np.array([case.interpolated(field, case.alpha(rule)) for case in cases])


def n_useful(cases: list[Case], rule: Rule) -> int:
    return int((margin(densities(cases, rule)) >= 1).sum())


def margin_table(cases: list[Case], statistic: str, factor: str) -> Floats:
    """Margins of shape (n_ratios, n_cases)."""
    rules = [Rule(statistic, factor, ratio) for ratio in RATIOS]
    return np.array([margin(densities(cases, rule)) for rule in rules])


def most_useful(margins: Floats) -> int:
    """Index of the ratio with the most useful cases; of equal ones, the middle one."""
    counts = (margins >= 1).sum(axis=1)
    best = np.flatnonzero(counts == counts.max())
    return int(best[len(best) // 2])


def n_useful_left_out(cases: list[Case], margins: Floats) -> int:
    """Useful cases if the ratio for each data set is chosen on the other data sets."""
    names = np.array([case.data.name for case in cases])
    counts = [
        (margins[most_useful(margins[:, names != name]), names == name] >= 1).sum()
        for name in np.unique(names)
    ]
    return int(sum(counts))


def print_table(header: str, rows: Iterable[Iterable[object]]) -> None:
    print(f"| {header} |\n| {' | '.join('---' for _ in header.split('|'))} |")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |", flush=True)
    print()


def spread(values: Floats) -> str:
    """Least, median and greatest."""
    return " / ".join(f"{value:.1%}" for value in (values.min(), np.median(values), values.max()))


def report_rules(title: str, cases: list[Case]) -> None:
    print(f"### {title}: {len(cases)} cases\n")
    rows = []
    for statistic, factor in ((name, factor) for factor in FACTORS for name in STATISTICS):
        margins = margin_table(cases, statistic, factor)
        good = RATIOS[margins.min(axis=1) >= 1]
        limits = f"{good.min():.3f} to {good.max():.3f}" if len(good) else "none"
        mildest = Rule(statistic, factor, RATIOS[margins.min(axis=1).argmax()])
        most = Rule(statistic, factor, RATIOS[most_useful(margins)])
        trained = densities(cases, most)
        row: list[object] = [f"{statistic} × {factor}", limits]
        row += [f"{mildest.ratio:.3f}", spread(densities(cases, mildest))]
        row += [f"{most.ratio:.3f}", n_useful(cases, most), n_useful_left_out(cases, margins)]
        row += [spread(trained), cases[trained.argmin()].name, cases[trained.argmax()].name]
        rows.append(row)
    header = "scale | all useful | best worst case | density | most useful | useful | left out"
    print_table(f"{header} | density | least | greatest", rows)


def report_ratios(cases: list[Case]) -> None:
    print("## Densities at a grid of ratios\n")
    print(f"Least / median / greatest over the {len(cases)} cases with ordinary data.\n")
    rows = []
    for factor, ratios in SHOWN_RATIOS.items():
        for rule in (Rule(name, factor, ratio) for name in STATISTICS for ratio in ratios):
            columns = [spread(densities(cases, rule, field)) for field in ("trained", "encoder")]
            error = float(np.median(densities(cases, rule, "error")))
            rows.append((rule, *columns, f"{error:.2f}", n_useful(cases, rule)))
    header = "alpha | trained density | held-out encoder density | median held-out error | useful"
    print_table(header, rows)


def report_fits(cases: list[Case], rule: Rule) -> None:
    print(f"## Trained with alpha = {rule}\n")
    print(f"Not interpolated. In bold what is outside {LOW:.0%} to {HIGH:.0%}.\n")
    rows, gaps = [], []
    for case in cases:
        figures = train(case.data.X, case.m, case.alpha(rule))
        gaps.append(abs(figures.trained - case.interpolated("trained", case.alpha(rule))))
        mark = "" if margin(figures.trained) >= 1 else "**"
        density = f"{mark}{figures.trained:.1%}{mark}"
        rows.append((case.name, density, f"{figures.encoder:.1%}", f"{figures.error:.3f}"))
    print_table("data | trained density | held-out encoder density | held-out error", rows)
    print(f"The trained densities differ from the interpolated ones by at most {max(gaps):.1%} of")
    print(f"the codes, and by {np.median(gaps):.1%} in the median.\n")


def report_variants(cases: list[Case], rules: Iterable[Rule]) -> None:
    print("## Other settings\n")
    print("Trained density with the second number of units of some data sets. MiniBatchSCNN has")
    print("`batch_size=500` and alpha from all rows.\n")
    second = [case for case in cases if case.m == case.data.sizes[1]]
    rows = []
    for rule in rules:
        for case in (case for case in second if case.data.name in VARIANT_DATA):
            row = [str(rule), case.name]
            for name, parameters in VARIANTS.items():
                X = case.data.X.astype("float32") if name == "float32" else case.data.X
                row.append(f"{train(X, case.m, case.alpha(rule), **parameters).trained:.1%}")
            rows.append(row)
    print_table(f"alpha | data | {' | '.join(VARIANTS)}", rows)


def report_first_batches(cases: list[Case], repetitions: int = 200) -> None:
    print("## Alpha from the first batch of a stream\n")
    print("Alpha from a first batch divided by alpha from all rows: the 5th and the 95th")
    print(f"percentile of {repetitions} batches whose rows are sampled with replacement.\n")
    rng = np.random.default_rng(0)
    sizes = (100, 500, 2000)
    rows = []
    for case in {case.data.name: case for case in cases}.values():
        for name, statistic in STATISTICS.items():
            whole = statistic(case.lengths)
            row = [case.data.name, name]
            for size in sizes:
                batches = rng.choice(case.lengths, (repetitions, size))
                ratios = [statistic(batch) / whole for batch in batches] if whole else [np.nan]
                row.append("{:.2f} to {:.2f}".format(*np.percentile(ratios, (5, 95))))
            rows.append(row)
    print_table(f"data | scale | {' | '.join(f'{size} rows' for size in sizes)}", rows)


def main() -> None:
    warnings.simplefilter("ignore")
    start = time.process_time()
    cases = [measure(data, m) for data in data_sets() for m in data.sizes]
    ordinary = [case for case in cases if not case.data.stress]
    n_fits = sum(len(case.figures) - 1 for case in cases)
    print("# The scale of alpha\n")
    print(f"Output of `alpha_scale.py`: {len(cases)} cases (a data set and a number of units m),")
    print(
        f"{n_fits} networks. A density is the fraction of non-zero codes; three densities are the"
    )
    print(
        f"least, the median and the greatest. A density is useful if it is {LOW:.0%} to {HIGH:.0%}."
    )
    print("The best worst case is the ratio at which the worst case is least outside this range.")
    print("Below the smallest trained alpha of a case its density is taken as constant, so that")
    print('large densities are lower bounds. "Left out" counts the useful cases if the ratio for')
    print("each data set is chosen on the other data sets.\n")
    print("## Ratios that suit all data\n")
    report_rules("Ordinary data", ordinary)
    report_rules("Ordinary data and stress tests", cases)
    report_ratios(ordinary)
    rules = []
    for factor in ("m/p", "√m/p"):
        tables = {name: margin_table(cases, name, factor) for name in STATISTICS}
        name = max(tables, key=lambda name: int((tables[name] >= 1).sum(axis=1).max()))
        ratio = RATIOS[most_useful(tables[name])]
        rules.append(Rule(name, factor, float(f"{ratio:.1g}")))
    for rule in rules:
        report_fits(cases, rule)
    report_variants(cases, rules)
    report_first_batches(cases)
    print(f"The script took {(time.process_time() - start) / 60:.1f} minutes of processor time.")


if __name__ == "__main__":
    main()
