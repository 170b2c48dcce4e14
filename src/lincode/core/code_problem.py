"""The U step's problem (paper eqs. 12 to 14): for a given D and C, one lasso for all rows.

Half the energy, as a function of one row's code u, is

    ½ u H uᵀ − b uᵀ + τ‖u‖₁ + constant,   H = D Dᵀ/p + η I/m,  b = x (D/p + η C/m)ᵀ,  τ = λ/m.

Data that are not centred give atoms that share a direction v, and H one eigenvalue far above
the rest: 0.175, then 0.020 for MNIST digits. Steps short enough for the first would crawl
along all others. So steps are measured in

    M = L I + σ v vᵀ ≽ H,    L the second eigenvalue of H, L + σ the first, v its eigenvector,

whose proximity operator costs one number more per row (``soft_threshold_along``). The steps
needed then depend on L/μ alone: 20 instead of 72 there for the same accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from lincode.core.types import Array

STIFF = 2.0
"""The first eigenvalue has a metric of its own where it is this many times the second."""


@dataclass(frozen=True)
class CodeProblem:
    """What all rows share: min_u ½ u H uᵀ − b uᵀ + τ‖u‖₁ with b = x Wᵀ (u ≥ 0 if ``positive``)."""

    H: Array
    """Hessian (m, m)"""
    W: Array
    """b = x Wᵀ, W (m, p)"""
    tau: float
    positive: bool
    L: float
    """Largest eigenvalue of H across v: steps of 1/L never overshoot there"""
    sigma: float
    """By how much it is larger along v; 0 where no direction stands out"""
    v: Array
    """Eigenvector of the largest eigenvalue L + σ (m,)"""
    mu: float
    """No eigenvalue of H is below: how much momentum pays"""

    @property
    def norm(self) -> float:
        """‖H‖, its largest eigenvalue."""
        return self.L + self.sigma

    @property
    def most_momentum(self) -> float:
        """(1 − √q)/(1 + √q), q = μ/L: more would not pay where curvature is at least μ."""
        root = float(np.sqrt(self.mu / self.L)) if self.L > 0 else 1.0
        return (1 - root) / (1 + root)

    @classmethod
    def of(
        cls,
        D: Array,
        C: Array,
        lam: float,
        eta: float,
        *,
        positive: bool,
        dtype: np.dtype[np.floating],
    ) -> CodeProblem:
        """The problem of D and C, its matrices in the precision of the rows."""
        m, p = D.shape
        DDt = D @ D.T
        first, second, v = _leading_eigenvalues(D, DDt)
        H = DDt / p
        H.flat[:: m + 1] += eta / m
        W = D / p + eta / m * C
        L = (second / p + eta / m) * (1 + 1e-6)
        largest = float(np.finfo(dtype).max)
        if not max(float(np.abs(H).max()), float(np.abs(W).max())) < largest:
            raise ValueError(
                f"encoder_weight={eta:g} makes numbers that {dtype} cannot hold; it must be"
                " smaller."
            )
        return cls(
            H=H.astype(dtype),
            W=W.astype(dtype),
            tau=min(lam / m, largest),
            positive=positive,
            L=L,
            sigma=(first - second) / p,
            v=v.astype(dtype),
            mu=eta / m,
        )


def _leading_eigenvalues(D: Array, DDt: Array) -> tuple[float, float, Array]:
    """The two largest eigenvalues of D Dᵀ and the first's vector.

    The two are the same where the first does not stand out. That it is at most 1000 times
    the second keeps float32 out of trouble; a bound may be too large, never too small.
    """
    m, p = D.shape
    # The non-zero spectrum of D Dᵀ is that of DᵀD: take the smaller one.
    gram = DDt if m <= p else D.T @ D
    n = len(gram)
    w, Q = scipy.linalg.eigh(gram, subset_by_index=[max(n - 2, 0), n - 1])
    first = max(float(w[-1]), 0.0)
    second = max(float(w[0]) if n > 1 else 0.0, first / 1000)
    v = Q[:, -1] if m <= p else D @ Q[:, -1]
    if not 0 < STIFF * second < first:
        return first, first, np.zeros(m)
    return first, second, np.asarray(v / np.linalg.norm(v))
