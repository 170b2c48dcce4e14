"""SCNN as the paper starts and trains it (Algorithm 1).

    E(U, D, C) = 1/p ‖X − U D‖²  +  1/m ‖U − X Cᵀ‖²  +  2λ/m ‖U‖₁      s.t. ‖D[j]‖ ≤ 1

The steps of Algorithm 1 are plain proximal and gradient steps with Lipschitz step sizes. Errors in
the printed algorithm are corrected as follows (paper → here):

    weight updates d + η ∂E/∂d                      minus: descent
    2/d and 1/d in ∂E/∂D and η_U                    p, the number of inputs
    threshold λ in every U iteration                2 η_U λ/m, the prox of the penalty in E
    ‖UUᵀ‖²_F and ‖XXᵀ‖²_F in η_D and η_C            spectral norms of UᵀU and XᵀX
    steps (b) and (c) use U of the last iteration   the newest U, as the text says

As in the paper, training stops on the change of the network's reconstruction error. The initial
encoder is projected onto the row space of X, because no gradient changes the rest of it. The paper
does not define the convergence of an inner loop. Here an inner loop ends when the relative change
of the iterate is at most ``INNER_RTOL``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lincode.core.arrays import Array
from lincode.core.dictionary import dictionary_step, project_unit_ball
from lincode.core.energy import CodeStats, energy, energy_from_stats
from lincode.core.lasso import CodeProblem, code_step
from lincode.core.ridge import DirectFactor, factor_gram, factor_transposed
from lincode.core.threshold import soft_threshold
from paper.networks.base import Network, check_choice, finite

U_ITERATIONS, D_ITERATIONS, C_ITERATIONS = 1000, 500, 500
"""The largest numbers of inner iterations (Section 4 of the paper)."""
INNER_RTOL = 1e-5
MAX_ITER = {"gradient": 50, "accelerated": 200}
"""The default number of outer iterations; 50 is that of the paper."""
MAX_STEP_TOL, MIN_STEP_TOL, STEP_TOL_FRACTION = 1e-2, 1e-6, 0.3
"""The tolerance of accelerated steps: a fraction of the last relative change of the energy."""
MAX_CODE_STEPS, MAX_SWEEPS, MAX_FINAL_SWEEPS = 1000, 5, 1000
MAX_MOMENTUM = 0.9
"""The largest factor by which accelerated training extrapolates D and C."""
ROUNDING_TOL = 1e-14
"""Codes cannot be computed to a smaller tolerance than this."""


def factor_rows(X: Array) -> DirectFactor:
    """Factor XᵀX in float64 through the smaller of its two dimensions."""
    X64 = np.asarray(X, dtype=np.float64)
    if X.shape[1] <= len(X):
        return factor_gram(X64.T @ X64, X.dtype)
    return factor_transposed(np.array(X64.T, order="F"), X.dtype)


Update = Callable[[Array], Array]


class GradientTraining:
    """SCNN in training: the codes U of the rows X, D and C, and the steps of Algorithm 1."""

    def __init__(self, X: Array, lam: float, m: int, rng: np.random.RandomState) -> None:
        (N, p), self.X, self.lam = X.shape, X, lam
        self.factor = factor_rows(X)
        self.U = rng.uniform(-1, 1, (N, m)).astype(X.dtype)
        self.D = project_unit_ball(rng.uniform(-1, 1, (m, p)))
        self.C = self.factor.project(rng.uniform(-1, 1, (m, p)))
        self.stats = CodeStats.of(self.U, X)

    def code_problem(self) -> CodeProblem:
        """Return the problem of the U step for the present D and C."""
        return CodeProblem.of(self.D, self.C, self.lam, 1.0, positive=False, dtype=self.X.dtype)

    def energy(self) -> float:
        """Return the present energy."""
        return finite(energy_from_stats(self.stats, self.D, self.C, self.factor, self.lam))

    def iterate(self) -> None:
        """Do one iteration of Algorithm 1."""
        self.input_update()
        self.reconstruction_weight_update()
        self.projection_weight_update()

    def input_update(self) -> None:
        """Do step (a), the B-SCNN input update (equation 14)."""
        self.set_codes(_iterate(self.code_update(), self.U, U_ITERATIONS))

    def set_codes(self, U: Array) -> None:
        """Replace the codes."""
        self.U, self.stats = U, CodeStats.of(U, self.X)

    def code_update(self) -> Update:
        """Return one iteration of step (a), U ← P(U − η_U ∂E₁/∂U)."""
        problem, m = self.code_problem(), len(self.D)
        H, b = problem.H, self.X @ problem.W.T
        norm = problem.norm  # ‖D Dᵀ/p + I/m‖
        eta_U = 1 / (2 * norm) if norm > 0 else 0.0

        def update(U: Array) -> Array:
            gradient = 2 * (U @ H - b)  # equation 12
            return soft_threshold(U - eta_U * gradient, 2 * eta_U * self.lam / m)

        return update

    def reconstruction_weight_update(self) -> None:
        """Do step (b), the B-SCNN weight update (equations 7 and 9)."""
        norm = float(np.linalg.norm(self.stats.UtU, 2))
        if norm > 0:
            self.D = _iterate(self.dictionary_update(norm), self.D, D_ITERATIONS)

    def dictionary_update(self, norm: float) -> Update:
        """Return one iteration of step (b) with η_D = p/(2 norm), and a projection."""
        UtU, UtX = self.stats.UtU, self.stats.UtX
        p = self.D.shape[1]
        eta_D = p / (2 * norm)

        def update(D: Array) -> Array:
            gradient = 2 / p * (UtU @ D - UtX)
            return project_unit_ball(D - eta_D * gradient)

        return update

    def projection_weight_update(self) -> None:
        """Do step (c), the T-SCNN weight update (equations 8 and 10)."""
        s2 = self.factor.s2
        if s2.size:
            self.C = _iterate(self.encoder_update(s2.max()), self.C, C_ITERATIONS)

    def encoder_update(self, norm: float) -> Update:
        """Return one iteration of step (c) with η_C = m/(2 norm)."""
        V, s2, UtX = self.factor.V, self.factor.s2, self.stats.UtX
        m = len(self.C)
        eta_C = m / (2 * norm)

        def update(C: Array) -> Array:
            CXtX = (C @ V * s2) @ V.T
            gradient = 2 / m * (CXtX - UtX)
            return np.asarray(C - eta_C * gradient)

        return update

    def monitored_error(self) -> float:
        """Return 1/p ‖X − X Cᵀ D‖², the error of the network in step (d)."""
        V, s2 = self.factor.V, self.factor.s2
        residual = V.T - (V.T @ self.C.T) @ self.D
        return float(s2 @ (residual**2).sum(axis=1) / self.D.shape[1])

    def is_accurate(self, change: float) -> bool:
        """Return True: after any iteration, training may stop."""
        return True

    def finish(self) -> None:
        """Do nothing after the last iteration."""


def stopped_encoders(
    X: Array, U: Array, starts: Sequence[Array], steps: Sequence[float]
) -> list[list[Array]]:
    """Return for each start the encoders after so many steps (c) on the codes U.

    Along an eigenvector of XᵀX with eigenvalue s², a step with η_C multiplies the distance to the
    least-squares solution by 1 − s²/max s². So t steps need no loop, and t = ∞ is the solution.
    The starts are projected onto the row space of X.
    """
    factor = factor_rows(X)
    exact = factor.solve(CodeStats.of(U, X).UtX)
    remaining = 1 - factor.s2 / factor.s2.max()
    return [
        [exact + ((start - exact) @ factor.V * remaining**t) @ factor.V.T for t in steps]
        for start in starts
    ]


def remaining_excess(
    X: Array, lam: float, m: int, rng: np.random.RandomState, *, printed: bool
) -> dict[str, float]:
    """Return how much of the excess of the energy each step of the second iteration leaves.

    Each step makes as many inner iterations as the paper allows, with the corrected or the printed
    norms in its step size, and its limit is computed by the solvers of lincode. The entry "λ" is
    the λ for which the printed threshold would be right, divided by λ.
    """
    training = GradientTraining(X, lam, m, rng)
    training.iterate()
    found = {"λ": m * training.code_problem().norm}

    def excess(name: str, solved: Array, steps: Array) -> None:
        energies = []
        before = training.U, training.D, training.C
        for value in (solved, steps, None):
            U, training.D, training.C = (
                value if value is not None and name == own else old
                for own, old in zip("UDC", before, strict=True)
            )
            training.set_codes(U)
            energies.append(training.energy())
        limit, after, start = energies
        found[name] = (after - limit) / (start - limit)

    def repeated(update: Update, A: Array, n: int) -> Array:
        for _ in range(n):
            A = update(A)
        return A

    U = repeated(training.code_update(), training.U, U_ITERATIONS)
    excess("U", code_step(U, X, training.code_problem(), tol=1e-9, max_iter=100_000).U, U)
    training.set_codes(U)
    stats, s2 = training.stats, training.factor.s2
    norms = float(np.sum(stats.UtU**2)), float(np.sum(s2**2))
    if not printed:
        norms = float(np.linalg.norm(stats.UtU, 2)), float(s2.max())
    D = repeated(training.dictionary_update(norms[0]), training.D, D_ITERATIONS)
    excess("D", dictionary_step(D, stats, tol=1e-9, max_sweeps=10_000)[0], D)
    C = repeated(training.encoder_update(norms[1]), training.C, C_ITERATIONS)
    excess("C", training.factor.solve(stats.UtX), C)
    return found


def _iterate(update: Update, A: Array, max_iter: int) -> Array:
    """Apply an update until it converges or ``max_iter`` is reached."""
    for _ in range(max_iter):
        previous, A = A, update(A)
        if np.linalg.norm(A - previous) <= INNER_RTOL * np.linalg.norm(A):
            break
    return A


class AcceleratedTraining(GradientTraining):
    """The start of the paper, and the training of ``lincode.SCNN`` with ``refine=False``.

    Each step is solved to a tolerance that follows the change of the energy. D and C are
    extrapolated in the direction of their last change, and atoms that no row uses are replaced.
    ``lincode.SCNN`` cannot start from given codes, so its iteration is repeated here for the
    experiment that shows what the start changes.
    """

    def __init__(
        self, X: Array, lam: float, m: int, rng: np.random.RandomState, tol: float
    ) -> None:
        super().__init__(X, lam, m, rng)
        self.previous, self.age = (self.D, self.C), 0
        self.step_tol = MAX_STEP_TOL
        self.final_tol = float(np.clip(tol, MIN_STEP_TOL, MAX_STEP_TOL / 10))
        self.codes_computed = False

    def iterate(self) -> None:
        """Do one iteration, from an extrapolated D and C if that lowers the energy."""
        if self.codes_computed and (self.stats.used == 0).any():
            self.replace_unused_atoms()
        if self.age == 0 or not self.extrapolated_iteration():
            self.plain_iteration()

    def plain_iteration(self) -> None:
        """Do the three steps from the present D and C."""
        before = self.D, self.C
        self.update_codes()
        self.D = dictionary_step(self.D, self.stats, tol=self.step_tol, max_sweeps=MAX_SWEEPS)[0]
        self.C = self.factor.solve(self.stats.UtX)
        self.previous, self.age = before, self.age + 1

    def extrapolated_iteration(self) -> bool:
        """Do the three steps from extrapolated D and C; return whether the energy decreased.

        If it did not, D and C are restored and the momentum is reset.
        """
        start, D, C, age = self.energy(), self.D, self.C, self.age
        factor = min(age / (age + 3), MAX_MOMENTUM)
        self.D = project_unit_ball(D + factor * (D - self.previous[0]))
        self.C = C + factor * (C - self.previous[1])
        self.plain_iteration()
        self.previous, self.age = (D, C), age + 1
        if self.energy() <= start:
            return True
        self.D, self.C, self.age = D, C, 0
        while self.energy() > start and self.step_tol > ROUNDING_TOL:
            self.step_tol /= 10
            self.update_codes()
        return False

    def update_codes(self) -> None:
        """Do the U step to the present tolerance."""
        self.U, residual, _ = code_step(
            self.U, self.X, self.code_problem(), tol=self.step_tol, max_iter=MAX_CODE_STEPS
        )
        self.stats = CodeStats.of(self.U, self.X, residual)
        self.codes_computed = True

    def replace_unused_atoms(self) -> None:
        """Replace atoms that no row uses by the residuals of the worst rows, if these would use it.

        A row uses a new atom if its gradient there, ‖r‖/p for the residual r, exceeds λ/m.
        """
        (m, p), unused = self.D.shape, np.flatnonzero(self.stats.used == 0)
        R = self.X - self.U @ self.D.astype(self.X.dtype)
        worst = np.argsort(-np.einsum("ij,ij->i", R, R), kind="stable")[: len(unused)]
        R = R[worst].astype(np.float64)
        norms = np.linalg.norm(R, axis=1)
        useful = (norms / p > self.lam / m) & (norms > 0)
        if useful.any():
            self.D = self.D.copy()
            self.D[unused[: len(R)][useful]] = R[useful] / norms[useful, None]
            self.previous, self.age = (self.D, self.C), 0

    def monitored_error(self) -> float:
        """Return the energy."""
        return self.energy()

    def is_accurate(self, change: float) -> bool:
        """Adapt the tolerance of the steps; return whether it was small enough to stop."""
        accurate = self.step_tol <= self.final_tol
        self.step_tol = float(np.clip(STEP_TOL_FRACTION * change, self.final_tol, MAX_STEP_TOL))
        return accurate

    def finish(self) -> None:
        """Compute the dictionary to its final tolerance, and the encoder for the final codes."""
        self.D = dictionary_step(
            self.D, self.stats, tol=self.final_tol, max_sweeps=MAX_FINAL_SWEEPS
        )[0]
        self.C = self.factor.solve(self.stats.UtX)


class PaperSCNN(Network):
    """SCNN with the start, the training and the codes of the paper.

    U, D and C start uniform in [−1, 1], with D projected onto the unit balls. The code of a sample
    x is the soft threshold of x Cᵀ at λ.

    Parameters
    ----------
    n_components : int, default=None
        Number of units (atoms). None means the number of features.
    alpha : float, default=0.1
        Sparsity parameter λ ≥ 0.
    solver : {"gradient", "accelerated"}, default="gradient"
        "gradient" is Algorithm 1 of the paper, which does not replace unused atoms. "accelerated"
        is the training of :class:`lincode.SCNN` with ``refine=False``.
    max_iter : int, default=None
        The largest number of outer iterations. None means 50 as in the paper, or 200 with
        ``solver="accelerated"``.
    tol : float, default=1e-4
        Training stops when the relative change of the reconstruction error, or of the energy with
        ``solver="accelerated"``, is at most ``tol``.
    random_state : int, RandomState instance or None, default=None
        Seed of the start.

    Attributes
    ----------
    encoder_ : array of shape (n_components, n_features)
        The encoder C, one filter per row.
    usage_ : array of shape (n_components,)
        The fraction of the training samples that use each atom.

    References
    ----------
    Montalto, Tessitore, Prevete: A linear approach for sparse coding by a two-layer neural
    network. Neurocomputing 149 (2015).
    """

    def __init__(
        self,
        n_components: int | None = None,
        alpha: float = 0.1,
        *,
        solver: str = "gradient",
        max_iter: int | None = None,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _train(self, X: Array, rng: np.random.RandomState) -> list[float]:
        check_choice("solver", self.solver, list(MAX_ITER))
        m, lam = self._n_units(X), float(self.alpha)
        training = (
            GradientTraining(X, lam, m, rng)
            if self.solver == "gradient"
            else AcceleratedTraining(X, lam, m, rng, self.tol)
        )
        path, error = [training.energy()], training.monitored_error()
        for _ in range(self.max_iter or MAX_ITER[self.solver]):
            training.iterate()
            path.append(training.energy())
            previous, error = error, training.monitored_error()
            change = abs(previous - error) / previous if previous > 0 else 0.0
            if training.is_accurate(change) and change <= self.tol:
                break
        else:
            warnings.warn(
                "PaperSCNN: max_iter was reached before convergence; increase max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        training.finish()
        path[-1] = training.energy()
        # (u, d, c) and (−u, −d, −c) have the same energy: make the largest entry of d positive.
        D, C = training.D, training.C
        sign = np.sign(np.take_along_axis(D, np.abs(D).argmax(axis=1)[:, None], axis=1))
        sign[sign == 0] = 1
        self.components_, self.encoder_ = (sign * D).astype(X.dtype), (sign * C).astype(X.dtype)
        self.usage_ = training.stats.used / len(X)
        return path

    def _codes(self, X: Array) -> Array:
        return soft_threshold(X @ self.encoder_.astype(X.dtype, copy=False).T, float(self.alpha))

    def _energy(self, X: Array) -> float:
        """Return the energy of samples with the codes that minimise it."""
        D, C, lam = self.components_, self.encoder_, float(self.alpha)
        problem = CodeProblem.of(D, C, lam, 1.0, positive=False, dtype=X.dtype)
        U = np.zeros((len(X), len(D)), dtype=X.dtype)
        U = code_step(U, X, problem, tol=1e-6, max_iter=MAX_CODE_STEPS).U
        return energy(X, U, D, C, lam)
