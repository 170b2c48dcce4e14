"""Proximal gradient steps with momentum for the U step, in the metric of ``lasso.py``.

There are two kinds of steps. With Y = U + β (U − U_old), both are

    V = argmin_V  G·V + ½‖V − Y‖²_M / α + τ‖V‖₁.

- Nesterov's steps: G is the gradient at Y, and α = 1. The momentum β grows from zero and is reset
  when it points uphill. They converge from any start.
- Heavy-ball steps (Polyak 1964): G is the gradient at U, and α and β are the constants that are
  optimal for a quadratic function with eigenvalues between μ and L,
  α = 4/(1 + √q)² and β = ((1 − √q)/(1 + √q))² with q = μ/L. The error shrinks by √β per step once
  the signs of the code have settled, while Nesterov's steps may need 1/√(1 − √q).

A row begins with Nesterov's steps, continues with heavy-ball steps, and returns to Nesterov's steps
if its objective increased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lincode.core.arrays import Array
from lincode.core.compiler import compiled

if TYPE_CHECKING:
    from lincode.core.lasso import CodeProblem

MAX_NEWTON_STEPS = 30
"""Limit on the root-finding iterations per row; two are typical."""
ROOT_RTOL = 0.1
"""Relative accuracy to which κ is computed. A higher accuracy does not save proximal steps."""
ROUNDING_FACTOR = 4
"""Values of ψ below this many machine epsilons of ``at`` are indistinguishable from zero."""
N_FIRST_STEPS = 3
"""The number of Nesterov's steps before the heavy-ball steps. Without them the signs of many codes
change in the first heavy-ball steps, and their objective increases."""
LENGTH_FRACTION = 0.95
"""The length of heavy-ball steps as a fraction of the optimal one, at which they are unstable."""


class Iterate:
    """The codes of some rows, to which steps are applied.

    The product UH is stored with U. Because it is linear in U, the gradient at the extrapolated
    point and the gradient at U need no further product.
    """

    def __init__(self, b: Array, U: Array, UH: Array, problem: CodeProblem) -> None:
        self.b, self.U, self.UH, self.problem = b, U, UH, problem
        self.U_old, self.UH_old = U.copy(), UH.copy()
        self.n_steps = 0
        self.age = np.zeros(len(U), dtype=U.dtype)  # steps since the last restart of a row
        self.slope = np.ones(len(U), dtype=U.dtype)  # the last slope of ψ in _step_rows
        self.is_heavy = np.full(len(U), problem.mu > 0)  # whether heavy-ball steps are allowed

    def select(self, kept: NDArray[np.bool_]) -> Iterate:
        """Return the iterate with some of its rows."""
        selected = object.__new__(Iterate)
        selected.problem, selected.n_steps = self.problem, self.n_steps
        for name in ("b", "U", "UH", "U_old", "UH_old", "age", "slope", "is_heavy"):
            setattr(selected, name, getattr(self, name)[kept])
        return selected

    def advance(self, n_steps: int) -> None:
        """Do ``n_steps`` steps."""
        if self.problem.L == 0:  # D = 0 and η = 0: the minimiser is zero
            self.U, self.UH = np.zeros_like(self.U), np.zeros_like(self.UH)
            return
        for _ in range(n_steps):
            V = self._proximal_step()
            VH = self.problem.times_H(V, out=self.UH_old)
            self.U, self.U_old, self.UH, self.UH_old = V, self.U, VH, self.UH
            self.n_steps += 1

    def slow_down(self, rows: NDArray[np.bool_]) -> None:
        """Use Nesterov's steps for some rows from now on."""
        self.age[rows & self.is_heavy] = 0
        self.is_heavy &= ~rows

    def _proximal_step(self) -> Array:
        """Compute V, which overwrites U_old."""
        problem, dtype = self.problem, self.U.dtype
        length, momentum = problem.heavy_ball
        heavy = self.is_heavy & (self.n_steps >= N_FIRST_STEPS)
        nesterov = np.minimum(self.age / (self.age + 3), problem.max_momentum)
        alpha = np.where(heavy, LENGTH_FRACTION * length, 1.0) / problem.L
        beta, gamma = np.where(heavy, momentum, nesterov), np.where(heavy, 0, nesterov)
        arrays = self.U, self.U_old, self.UH, self.UH_old, self.b
        uphill = step_rows(
            arrays,
            problem.v,
            problem.sigma / problem.L,
            alpha.astype(dtype),
            (beta.astype(dtype), gamma.astype(dtype)),
            problem.tau,
            problem.positive,
            self.slope,
        )
        self.age = np.where((uphill > 0) & ~heavy, 0, self.age + 1).astype(dtype)
        return self.U_old


def step_rows(
    arrays: tuple[Array, Array, Array, Array, Array],
    v: Array,
    rho: float,
    lengths: Array,
    momenta: tuple[Array, Array],
    tau: float,
    positive: bool,
    slope: Array,
) -> Array:
    """Do a proximal step for each row, with ``arrays`` U, U_old, UH, UH_old and b.

    With Y = U + β (U − U_old) and the gradient G at U + γ (U − U_old), where β and γ are the
    ``momenta``, and with the ``lengths`` α, a step is

        V = argmin_V  α G·V + ½‖V − Y‖² + ½ρ ((V − Y)·v)² + α τ‖V‖₁.

    It overwrites U_old. The ``slope`` is that of ψ in ``_step_rows``. Return (Y − V) M (V − U) of
    each row for the metric M = I + ρ v vᵀ. A positive value shows that the momentum points uphill
    (O'Donoghue and Candès 2015).
    """
    number = v.dtype.type
    uphill = np.empty(len(lengths), v.dtype)
    accuracy = number(ROOT_RTOL), number(ROUNDING_FACTOR * np.finfo(v.dtype).eps)
    largest = number(np.finfo(v.dtype).max)
    penalty = number(tau), positive, largest
    _step_rows(*arrays, v, number(rho), lengths, *momenta, penalty, accuracy, slope, uphill)
    return uphill


# Each entry is computed by conditional expressions, which the compiler turns into vector
# instructions. It does not do so for max and min, because of NaN.


@compiled
def _step_rows(
    U: Any,
    U_old: Any,
    UH: Any,
    UH_old: Any,
    b: Any,
    v: Any,
    rho: Any,
    lengths: Any,
    beta: Any,
    gamma: Any,
    penalty: Any,
    accuracy: Any,
    slope: Any,
    uphill: Any,
) -> None:
    # One function, because Numba takes almost as long for each function that is inlined.
    n, m = U.shape
    zero, one, half = U.dtype.type(0), U.dtype.type(1), U.dtype.type(0.5)
    (tau, positive, largest), (rtol, rounding) = penalty, accuracy
    y, z = np.empty(m, U.dtype), np.empty(m, U.dtype)
    for i in range(n):
        u, u_old, uH, uH_old, c, length = U[i], U_old[i], UH[i], UH_old[i], b[i], lengths[i]
        at = zero
        for j in range(m):
            y[j] = u[j] + beta[i] * (u[j] - u_old[j])
            z[j] = y[j] - length * (uH[j] + gamma[i] * (uH[j] - uH_old[j]) - c[j])
            at += y[j] * v[j]

        # With κ = V·v − y·v, the step is V = soft_threshold(z − ρκ v, ατ), so that κ is the root of
        # ψ(κ) = κ + y·v − V(κ)·v. The function ψ increases with slope 1 + ρ Σ v², where the sum is
        # over the non-zeros of V. The root is found by Newton steps, with bisection where a step
        # leaves the bracket. The last slope is a good first slope for the next root.
        high = min(tau * length, largest)
        low = -largest if positive else -high
        kappa = left = right = zero
        for k in range(MAX_NEWTON_STEPS if rho > zero else 0):
            along, squares = zero, zero
            for j in range(m):
                w = z[j] - rho * kappa * v[j]
                clipped = w if w < high else high
                clipped = clipped if clipped > low else low
                along += (w - clipped) * v[j]
                squares += zero if w == clipped else v[j] * v[j]
            psi = kappa + at - along
            if k == 0:  # ψ(0) = at − along and ψ' ≥ 1
                left, right = min(-psi, zero), max(-psi, zero)
                kappa = -psi / slope[i]
                continue
            if not abs(psi) > rtol * abs(kappa) + rounding * abs(at):
                break
            if psi < zero:
                left = kappa
            else:
                right = kappa
            slope[i] = one + rho * squares
            kappa -= psi / slope[i]
            if kappa < left or kappa > right:
                kappa = half * (left + right)

        product = left_along = moved_along = zero
        for j in range(m):
            w = z[j] - rho * kappa * v[j]
            clipped = w if w < high else high
            clipped = clipped if clipped > low else low
            x = w - clipped
            product += (y[j] - x) * (x - u[j])
            left_along += (y[j] - x) * v[j]
            moved_along += (x - u[j]) * v[j]
            u_old[j] = x
        uphill[i] = product + rho * left_along * moved_along


def measure_rows(
    U: Array, UH: Array, b: Array, tau: float, *, positive: bool
) -> tuple[Array, Array, Array, Array]:
    """Return the violation, the objective, ‖u‖₁ and ‖u‖₂ of each row."""
    number, work = U.dtype.type, np.empty(U.shape[1], U.dtype)
    bits = work.view(np.int32 if U.dtype == np.float32 else np.int64)
    violation, value, l1, norm = (np.empty(len(U), U.dtype) for _ in range(4))
    _measure_rows(U, UH, b, number(tau), positive, work, bits, violation, value, l1, norm)
    return violation, value, l1, norm


@compiled
def _measure_rows(
    U: Any,
    UH: Any,
    b: Any,
    tau: Any,
    positive: bool,
    work: Any,
    bits: Any,
    violation: Any,
    value: Any,
    l1: Any,
    norm: Any,
) -> None:
    zero, half = U.dtype.type(0), U.dtype.type(0.5)
    for i in range(len(U)):
        u, uH, c = U[i], UH[i], b[i]
        total, length, square = zero, zero, zero
        for j in range(len(u)):
            g = uH[j] - c[j]
            total += u[j] * (g - c[j])
            length += abs(u[j])
            square += u[j] * u[j]
            downhill = -g if positive else abs(g)
            signed = g if u[j] > zero else -g
            worst = downhill - tau if u[j] == zero else abs(signed + tau)
            work[j] = worst if worst > zero else zero
        value[i] = half * total + tau * length
        l1[i], norm[i] = length, np.sqrt(square)
        # Non-negative numbers have the order of their bits. The compiler vectorises the maximum of
        # integers, but not that of floats.
        peak, place = bits.dtype.type(0), 0
        for j in range(len(bits)):
            peak = max(peak, bits[j])
        bits[place] = peak
        violation[i] = work[place]
