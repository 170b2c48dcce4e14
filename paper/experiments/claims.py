"""Claims of the paper, and the one rule by which all of them are judged (see the page)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
BETTER, TIE, DEPENDS = "differs (better)", "tie", "depends"
INCONCLUSIVE, NOT_JUDGED = "inconclusive", "not judged"
OUTCOMES = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_JUDGED)
N_ERRORS = 2


@dataclass(frozen=True)
class Estimate:
    """A number and its standard error, which is 0 if it is not known."""

    value: float
    error: float = 0.0

    def __rsub__(self, other: float) -> Estimate:
        return Estimate(other - self.value, self.error)

    def __sub__(self, other: Estimate | float) -> Estimate:
        """Return the difference of independent estimates, or from a number."""
        if isinstance(other, Estimate):
            return Estimate(self.value - other.value, float(np.hypot(self.error, other.error)))
        return Estimate(self.value - other, self.error)

    def __add__(self, other: float) -> Estimate:
        return Estimate(self.value + other, self.error)

    def __abs__(self) -> Estimate:
        return Estimate(abs(self.value), self.error)

    @property
    def z(self) -> float:
        """The value in standard errors, which is infinite if only the error is 0."""
        if self.error == 0:
            return float(np.copysign(np.inf, self.value)) if self.value else 0.0
        return self.value / self.error

    def distance_to(self, low: float, high: float) -> Estimate:
        """Return the negative distance to the range from low to high, 0 inside of it."""
        return Estimate(min(self.value - low, high - self.value, 0.0), self.error)

    @property
    def holds(self) -> bool:
        """Whether the value is positive (or 0 without an error) by two standard errors."""
        return self.value >= N_ERRORS * self.error

    @property
    def fails(self) -> bool:
        """Whether the value is negative by more than two standard errors."""
        return self.value < -N_ERRORS * self.error


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


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, the numbers of the paper and of the runs, and the comparisons."""

    sentence: str
    paper: str
    here: str
    margins: Sequence[Estimate] = ()
    """By how much each comparison holds, if positive, or fails. Empty if nothing was compared"""
    why: str = ""
    """What explains the result if the claim was not reproduced or is inconclusive"""
    shown_by: Sequence[str] = ()
    """The ids of the experiments that show it"""
    counted: bool = True
    """False for results that are not about a claim of the paper, or a second time about one"""

    @property
    def outcome(self) -> str:
        """The outcome in words."""
        if not self.margins:
            return NOT_JUDGED
        if all(margin.holds for margin in self.margins):
            return REPRODUCED
        return NOT_REPRODUCED if any(margin.fails for margin in self.margins) else INCONCLUSIVE


@dataclass(frozen=True)
class Tally:
    """The number of counted claims by outcome."""

    counts: Counter[str]

    @classmethod
    def of(cls, claims: Iterable[Claim]) -> Tally:
        """Count the claims of the paper, each once."""
        return cls(Counter(claim.outcome for claim in claims if claim.counted))

    @property
    def total(self) -> int:
        """The number of claims."""
        return self.counts.total()

    @property
    def sentence(self) -> str:
        """The sentence of the page, the README and the docs."""
        parts = []
        for x in OUTCOMES:
            n = self.counts[x]
            one, several = ("is", "are") if x == INCONCLUSIVE else ("was", "were")
            if n or x != NOT_JUDGED:
                parts.append(f"{n} {one if n == 1 else several} {x}")
        claims = "claim" if self.total == 1 else "claims"
        return f"Of {self.total} {claims}, {', '.join(parts[:-1])} and {parts[-1]}."


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
