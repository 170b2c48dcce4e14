"""Claims of the paper, and the rule by which all of them are judged (docs/paper.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

REPRODUCED, BETTER, TIE = "reproduced", "differs (better)", "tie"
NOT_REPRODUCED, DEPENDS, NOT_JUDGED = "not reproduced", "depends on a choice", "not judged"
SYMBOLS = {REPRODUCED: "✓", BETTER: "+", TIE: "=", NOT_REPRODUCED: "✗", DEPENDS: "?"}
OUTCOMES = (REPRODUCED, BETTER, TIE, NOT_REPRODUCED, NOT_JUDGED, DEPENDS)
N_ERRORS = 2


@dataclass(frozen=True)
class Estimate:
    """A number and its standard error, which is 0 if it is not known."""

    value: float
    error: float = 0.0

    def __sub__(self, other: Estimate | float) -> Estimate:
        """Return the difference of independent estimates, or from a number."""
        if isinstance(other, Estimate):
            return Estimate(self.value - other.value, float(np.hypot(self.error, other.error)))
        return Estimate(self.value - other, self.error)

    @property
    def z(self) -> float:
        """The value in standard errors, which is infinite if only the error is 0."""
        if self.error == 0:
            return float(np.copysign(np.inf, self.value)) if self.value else 0.0
        return self.value / self.error

    def distance_to(self, low: float, high: float) -> Estimate:
        """Return the negative distance to the range from low to high, 0 inside of it."""
        return Estimate(min(self.value - low, high - self.value, 0.0), self.error)


def signs(margins: Sequence[Estimate]) -> list[int]:
    """Return 1 for each margin that is clearly positive, −1 if clearly negative, 0 otherwise.

    A single margin is clear if it exceeds two standard errors. For several, Holm's correction
    keeps the probability of any false sign at that of a single one.
    """
    level = 2 * norm.sf(N_ERRORS)
    found = [0] * len(margins)
    order = sorted(range(len(margins)), key=lambda k: abs(margins[k].z), reverse=True)
    for rank, k in enumerate(order):
        if abs(margins[k].z) < norm.isf(level / 2 / (len(margins) - rank)):
            break
        found[k] = 1 if margins[k].value > 0 else -1
    return found


def verdict_of_number(margins: Sequence[Estimate]) -> str:
    """Return whether the paper's numbers are within two standard errors of ours.

    A margin is the difference of both, positive if ours is better. If the paper gives a range, or
    a word for which we chose one, it is the negative distance to this range, at most 0.
    """
    found = signs(margins)
    if -1 in found:
        return NOT_REPRODUCED
    return BETTER if 1 in found else REPRODUCED


def verdict_of_ordering(margins: Sequence[Estimate]) -> str:
    """Return whether an ordering of methods holds in our own runs of all of them.

    A margin is a paired difference of two methods, positive if their order is that of the paper.
    """
    found = signs(margins)
    if -1 in found:
        return NOT_REPRODUCED
    return REPRODUCED if all(found) else TIE


def combined(verdicts: Mapping[str, str]) -> str:
    """Return the verdict on a claim, given those for each reading of what the paper leaves open."""
    found = set(verdicts.values())
    return found.pop() if len(found) == 1 else DEPENDS


Margins = Sequence[Estimate]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, the numbers of the paper and of the runs, and the comparisons."""

    sentence: str
    paper: str
    here: str | Mapping[str, str]
    """Our numbers, or those for each reading"""
    margins: Mapping[str, Margins]
    """The comparisons for each reading of what the paper leaves open, or for "" """
    verdict: Callable[[Margins], str] = verdict_of_ordering
    choice: str = ""
    """What the readings are about"""

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict for each reading. Readings without results are left out."""
        return {x: self.verdict(own) for x, own in self.margins.items() if own}

    @property
    def outcome(self) -> str:
        """The verdict."""
        return combined(self.verdicts) if self.verdicts else NOT_JUDGED

    @property
    def text(self) -> str:
        """Our numbers, with the symbol of the verdict for each reading if they differ.

        Readings with the same numbers and verdicts are written once, and a unit after the last one.
        """
        if isinstance(self.here, str):
            return self.here
        verdicts = self.verdicts if self.outcome == DEPENDS else {}
        readings: dict[str, list[str]] = {}
        for x, text in self.here.items():
            symbol = f" {SYMBOLS[verdicts[x]]}" if x in verdicts else ""
            readings.setdefault(f"{symbol}: {text}" if x else text, []).append(x)
        every = set(self.here) - {""}
        parts = [
            text.removeprefix(": ") if set(own) == every else " and ".join(own) + text
            for text, own in readings.items()
        ]
        for unit in (" %", " times", " points", " points behind"):
            if all(part.endswith(unit) and part.count(unit) == 1 for part in parts):
                parts = [part.removesuffix(unit) for part in parts[:-1]] + parts[-1:]
        return "; ".join(parts)

    @property
    def verdict_text(self) -> str:
        """The symbol of the verdict, and what it depends on."""
        choice = self.choice if self.outcome == DEPENDS else ""
        return f"{SYMBOLS.get(self.outcome, '')} {choice}".strip()


def tally(claims: Sequence[Claim]) -> str:
    """Return the number of claims by outcome, and by choice, in a sentence."""
    n = Counter(claim.outcome for claim in claims)
    choices = Counter(claim.choice for claim in claims if claim.outcome == DEPENDS)
    by_choice = ", ".join(f"{choice} {k}" for choice, k in choices.most_common())
    counts = [f"{outcome} {n[outcome]}" for outcome in OUTCOMES if n[outcome]]
    text = f"Claims of the paper: {len(claims)}; {', '.join(counts)}"
    return f"{text} ({by_choice})." if by_choice else f"{text}."


@dataclass(frozen=True)
class Rate:
    """An error rate or an accuracy on test samples, with one value per repetition."""

    values: Sequence[float]
    n: int
    """The number of test samples of each repetition"""
    hits: Any = None
    """Array (repetitions, n) of whether each sample counts, or None if it was not recorded"""
    same_samples: bool = False
    """Whether all repetitions have the same test samples"""

    @property
    def mean(self) -> float:
        """The mean over the repetitions."""
        return float(np.mean(self.values))

    @property
    def n_different(self) -> int:
        """The number of different test samples."""
        return self.n if self.same_samples else self.n * len(self.values)

    @property
    def estimate(self) -> Estimate:
        """The mean with its standard error, which is at least that of one test sample."""
        binomial = float(np.sqrt(self.mean * (1 - self.mean) / self.n_different))
        smallest = 1 / self.n_different
        return Estimate(self.mean, max(binomial, smallest, error_of_mean(self.values)))

    def __sub__(self, other: Rate) -> Estimate:
        """Return the difference of two rates of the same samples, repetition by repetition.

        The numbers of repetitions may differ if all repetitions have the same samples.
        """
        if len(self.values) == len(other.values):
            spread = error_of_mean(np.subtract(self.values, other.values))
        else:
            spread = float(np.hypot(error_of_mean(self.values), error_of_mean(other.values)))
        known = self.hits is not None and other.hits is not None
        error = self._paired_error(other) if known else self._unpaired_error(other)
        smallest = 1 / self.n_different
        return Estimate(self.mean - other.mean, max(error, smallest, spread))

    def _paired_error(self, other: Rate) -> float:
        """Return the standard error of McNemar's test: √(b + c)/n for one repetition.

        b and c are the numbers of samples that count for one of the two only.
        """
        one, two = (np.asarray(rate.hits, dtype=float) for rate in (self, other))
        if self.same_samples:
            one, two = one.mean(axis=0), two.mean(axis=0)
        differences = (one - two).ravel()
        return float(np.sqrt(np.sum(differences**2)) / differences.size)

    def _unpaired_error(self, other: Rate) -> float:
        """Return the standard error of the difference of two independent rates."""
        variances = [rate.mean * (1 - rate.mean) / rate.n_different for rate in (self, other)]
        return float(np.sqrt(sum(variances)))


def error_of_mean(values: Sequence[float] | Any) -> float:
    """Return the standard error of a mean over repetitions, 0 if there is one repetition only."""
    n = len(values)
    return float(np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else 0.0


def mean_of(values: Sequence[float] | Any) -> Estimate:
    """Return the mean over repetitions and its standard error."""
    return Estimate(float(np.mean(values)), error_of_mean(values))


def median_of(values: Sequence[float] | Any) -> Estimate:
    """Return the median and its standard error, computed from the quartiles.

    For normally distributed values the standard deviation is the interquartile range divided by
    1.349, and the standard error of the median is √(π/2) standard errors of the mean.
    """
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    error = np.sqrt(np.pi / 2) * (high - low) / 1.349 / np.sqrt(len(values))
    return Estimate(float(middle), float(error))
