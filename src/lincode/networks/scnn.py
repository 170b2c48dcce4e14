"""SCNN (paper Section 3): a linear network that learns its codes, dictionary and encoder together.

    E(U, D, C) = 1/p ‖X − U D‖²  +  η/m ‖U − X Cᵀ‖²  +  2λ/m ‖U‖₁      s.t. ‖D[j]‖ ≤ 1

Algorithm 1's alternation of three convex steps, each solved by the method that suits it:

    U   accelerated proximal gradient, row by row          core/code_step.py
    D   Newton on its dual, or atom by atom                core/dictionary_step.py
    C   least squares through one factorisation            core/encoder_step.py

``scnn_paper.py`` has the same steps by the plain gradient iterations the paper prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lincode.core.code_problem import CodeProblem
from lincode.core.code_step import Codes, code_step
from lincode.core.dictionary_step import dictionary_step
from lincode.core.encoder_step import EncoderFactor, encode, encoder_step
from lincode.core.energy import energy_from_stats, rounding_of_energy
from lincode.core.optimality import dictionary_residual, encoder_residual
from lincode.core.prox import project_unit_ball
from lincode.core.stats import CodeStats
from lincode.core.types import Array, Rows
from lincode.rows.memory import MemoryRows

CODE_ITERATIONS = 1000
"""Most accelerated steps in one U step, the paper's cap for its step (a)."""
LOOSEST, TIGHTEST = 1e-2, 1e-6
"""Between these the accuracy of the steps follows the progress of the alternation."""
SWEEPS = 5
"""Most dictionary sweeps in one outer iteration: more do not make for fewer iterations."""
MOST_MOMENTUM = 0.9
"""The share of the last move that is added before the next iteration grows to this."""
ROUNDING_TOL = 1e-14
"""No code can be asked to be better than this."""
LAST_SWEEPS = 1000
"""Most dictionary sweeps after the last iteration, where the dual did not solve it."""


@dataclass(frozen=True)
class Weights:
    """The factors of the energy that do not change in training."""

    lam: float
    eta: float = 1.0
    positive: bool = False

    @property
    def threshold(self) -> float:
        """The encoder's: argmin_U η‖U − X Cᵀ‖² + 2λ‖U‖₁ soft-thresholds at λ/η."""
        return self.lam / self.eta if self.eta > 0 else self.lam

    def code_problem(self, D: Array, C: Array, dtype: np.dtype[np.floating]) -> CodeProblem:
        """The U step for D and C."""
        return CodeProblem.of(D, C, self.lam, self.eta, positive=self.positive, dtype=dtype)


@dataclass(frozen=True)
class Trained:
    """What training leaves behind."""

    D: Array
    C: Array
    optimality: dict[str, float]
    used: Array
    n_revived: int


@dataclass(frozen=True)
class Momentum:
    """Where D and C were an iteration ago, and for how many iterations they were not stopped."""

    D: Array
    C: Array
    age: int = 0


class SCNNTraining:
    """SCNN in training: rows with their codes, D, C, and the three steps."""

    monotone = True

    def __init__(
        self,
        rows: MemoryRows,
        D: Array,
        C: Array,
        weights: Weights,
        factor: EncoderFactor,
        *,
        tol: float,
        precision: np.dtype[np.floating] | None = None,
    ) -> None:
        # An encoder from elsewhere may weigh directions these data do not have.
        C = factor.span(C)
        self.rows, self.D, self.C = rows, D, C
        self.weights, self.factor = weights, factor
        self.stats: CodeStats = rows.stats()
        # Of the sums: that of the rows, unless coarser ones came before them.
        self.precision = rows.X.dtype if precision is None else precision
        self.n = self.stats.n
        self.n_revived = 0
        self.codes_solved = False  # an atom the start does not use is not idle yet
        self.momentum = Momentum(D, C)
        self.step_tol = LOOSEST
        self.measured: tuple[CodeStats | None, Array, Array, float] = (None, D, C, np.inf)
        self.final_tol = float(np.clip(tol, TIGHTEST, LOOSEST / 10))

    def energy(self) -> float:
        """E of the network as it is, computed once for each."""
        stats, D, C, energy = self.measured
        if not (stats is self.stats and D is self.D and C is self.C):
            lam, eta = self.weights.lam, self.weights.eta
            energy = energy_from_stats(self.stats, self.D, self.C, self.factor, lam, eta)
            self.measured = self.stats, self.D, self.C, energy
        return energy

    def rounding(self) -> float:
        eta, precision = self.weights.eta, self.precision
        return rounding_of_energy(self.stats, self.D, self.C, self.factor, eta, precision)

    def watched(self, energy: float) -> float:
        return energy

    def note_change(self, change: float) -> bool:
        """The better the alternation has converged, the better its steps are solved."""
        well_solved = self.step_tol <= self.final_tol
        self.step_tol = float(np.clip(0.3 * change, self.final_tol, LOOSEST))
        return well_solved

    def steps(self) -> Iterator[str]:
        """One outer iteration of Algorithm 1, from a little further on if that pays."""
        if self.codes_solved and (self.stats.used == 0).any():
            self.revive_atoms()
            yield "revival"
        if self.momentum.age > 0 and self.leap():
            yield "extrapolated"
        else:
            yield from self.walk()

    def walk(self) -> Iterator[str]:
        """The three steps, from where the network is."""
        D, C, age = self.D, self.C, self.momentum.age
        self.solve_codes(self.D, self.C)
        yield "codes"
        self.D, _ = dictionary_step(self.D, self.stats, tol=self.step_tol, max_sweeps=SWEEPS)
        yield "dictionary"
        if self.weights.eta > 0:
            self.C = encoder_step(self.stats.UtX, self.factor)
            yield "encoder"
        self.momentum = Momentum(D, C, age + 1)

    def leap(self) -> bool:
        """The three steps from D and C carried on in the direction they last moved.

        Nesterov's momentum on the alternation: it needs about a third of the iterations.
        Kept only if the energy goes down. Else D and C go back, momentum starts anew, and
        the codes are solved for them until they are as good as those they replaced.
        """
        reached, D, C, momentum = self.energy(), self.D, self.C, self.momentum
        share = min(momentum.age / (momentum.age + 3), MOST_MOMENTUM)
        self.D = project_unit_ball(D + share * (D - momentum.D))
        self.C = C + share * (C - momentum.C)
        for _ in self.walk():
            pass
        if self.energy() <= reached:
            self.momentum = Momentum(D, C, momentum.age + 1)
            return True
        self.D, self.C, self.momentum = D, C, Momentum(D, C)
        while self.energy() > reached and self.step_tol > ROUNDING_TOL:
            self.step_tol /= 10
            self.solve_codes(D, C)
        return False

    def solve_codes(self, D: Array, C: Array, tol: float | None = None) -> None:
        """The U step for D and C, as well as the present step demands or to ``tol``."""
        problem = self.weights.code_problem(D, C, self.rows.X.dtype)
        tol = self.step_tol if tol is None else tol
        self.stats = self.rows.update_codes(problem, tol=tol, max_iter=CODE_ITERATIONS)
        self.codes_solved = True

    def revive_atoms(self) -> None:
        """Point atoms no row uses at the worst-reconstructed rows' residuals r.

        Their codes are 0 and so is their encoder, so the energy stays what it is. A row
        will use the new atom if its gradient there, ‖r‖/p, is above λ/m; else it is not made.
        """
        m, p = self.D.shape
        idle = np.flatnonzero(self.stats.used == 0)
        R = self.rows.worst_residuals(self.D, len(idle)).astype(np.float64)
        length = np.linalg.norm(R, axis=1)
        useful = (length / p > self.weights.lam / m) & (length > 0)
        revived = idle[: len(R)][useful]
        if not revived.size:
            return
        self.D = self.D.copy()
        self.D[revived] = R[useful] / length[useful, None]
        self.n_revived += len(revived)
        self.momentum = Momentum(self.D, self.C)  # the old direction means nothing to new atoms

    def closing_steps(self) -> Iterator[str]:
        """The dictionary to its final accuracy, and an encoder where there is none yet."""
        self.D, _ = dictionary_step(self.D, self.stats, tol=self.final_tol, max_sweeps=LAST_SWEEPS)
        yield "dictionary"
        if self.weights.eta == 0:
            self.C = encoder_step(self.stats.UtX, self.factor)
            yield "encoder"

    def certify(self) -> Trained:
        """The network as it is, with the optimality residual of each of its steps.

        D and C do not meet in the energy but through U, so "dictionary" and "encoder" hold
        for the network as it is. "codes" is the last U step's, for the D and C it was given;
        "joint" is that of the same codes for the D and C that came after it.
        """
        now = self.weights.code_problem(self.D, self.C, self.rows.X.dtype)
        return Trained(
            D=self.D,
            C=self.C,
            optimality={
                "codes": self.stats.residual,
                "dictionary": dictionary_residual(self.D, self.stats),
                "encoder": encoder_residual(self.C, self.stats, self.factor),
                "joint": self.rows.code_residual(now),
            },
            used=self.stats.used,
            n_revived=self.n_revived,
        )


def solve_codes(
    X: Rows, C: Array, problem: CodeProblem, threshold: float, *, tol: float, max_iter: int
) -> Codes:
    """The code of unseen rows by minimisation, started from the encoder's if it has a say."""
    if problem.mu > 0:
        U = encode(X, C, threshold, positive=problem.positive)
    else:
        U = np.zeros((X.shape[0], len(C)), dtype=X.dtype)
    return code_step(U, X, problem, tol=tol, max_iter=max_iter)


def fix_signs(D: Array, C: Array) -> tuple[Array, Array]:
    """Flip atoms, and their filters with them, so that each atom's largest entry is positive.

    (u, d, c) and (−u, −d, −c) have the same energy; of entries equally large the first counts.
    """
    largest = np.take_along_axis(D, np.abs(D).argmax(axis=1)[:, None], axis=1)
    sign = np.where(largest < 0, -1.0, 1.0)
    return D * sign, C * sign
