"""A new row source needs only the methods of ``rows/protocol.py``."""

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from lincode.core.code_step import CodeProblem, code_step
from lincode.core.encoder_step import EncoderFactor, Thresholding, encode, factor_gram
from lincode.networks.scnn import EnergyWeights, SCNNTraining
from lincode.networks.training import Outcome, train
from lincode.rows.memory import MemoryRows
from lincode.rows.protocol import RowLengths, RowSource
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from lincode.core.arrays import Array, Rows
from lincode.core.dictionary import Start, start_from_data
from lincode.core.energy import CodeStats


class ListOfChunks:
    """Rows in a list of arrays of different lengths, each with its own array of codes."""

    def __init__(self, parts: list[Array], m: int) -> None:
        self.parts = parts
        self.codes = [np.zeros((len(part), m), dtype=part.dtype) for part in parts]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(map(len, self.parts)), self.parts[0].shape[1]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return np.dtype(self.parts[0].dtype)

    has_missing = False

    def update_missing(self, D: Array, C: Array, eta: float) -> CodeStats:
        raise NotImplementedError

    @property
    def weights(self) -> None:
        return None

    def row_lengths(self) -> RowLengths:
        norms = np.concatenate([np.linalg.norm(part, axis=1) for part in self.parts])
        return RowLengths(float(norms.max()), float(norms.mean()))

    def factor(self) -> EncoderFactor:
        return factor_gram(sum(part.T @ part for part in self.parts), self.dtype)  # type: ignore[arg-type]

    def take(self, indices: NDArray[np.intp]) -> Rows:
        ends = np.cumsum([len(part) for part in self.parts])
        which = np.searchsorted(ends, indices, side="right")
        starts = ends - [len(part) for part in self.parts]
        return np.array(
            [self.parts[k][i - starts[k]] for k, i in zip(which, indices, strict=True)]
        ).reshape(-1, self.shape[1])

    def take_codes(self, indices: NDArray[np.intp]) -> Array:
        return np.asarray(np.vstack(self.codes)[indices])

    def subset(self, indices: NDArray[np.intp]) -> RowSource:
        return MemoryRows(self.take(indices), self.codes[0].shape[1], n_threads=1)

    def set_codes(self, C: Array, thresholding: Thresholding) -> None:
        for part, U in zip(self.parts, self.codes, strict=True):
            U[...] = encode(part, C.astype(self.dtype), thresholding)

    def save_codes(self) -> object:
        return [U.copy() for U in self.codes]

    def restore_codes(self, saved: object) -> None:
        assert isinstance(saved, list)
        self.codes = saved

    def stats(self) -> CodeStats:
        return reduce(add, map(CodeStats.of, self.codes, self.parts))

    def update_codes(self, problem: CodeProblem, *, tol: float, max_iter: int) -> CodeStats:
        parts = []
        for k, part in enumerate(self.parts):
            solved = code_step(self.codes[k], part, problem, tol=tol, max_iter=max_iter)
            self.codes[k] = solved.U
            parts.append(CodeStats.of(solved.U, part, solved.residual))
        return reduce(add, parts)

    def code_residual(self, problem: CodeProblem) -> float:
        return max(
            code_step(U, part, problem, tol=0.0, max_iter=0).residual
            for part, U in zip(self.parts, self.codes, strict=True)
        )

    def largest_residuals(self, D: Array, k: int) -> Array:
        R = np.vstack(
            [part - U @ D.astype(U.dtype) for part, U in zip(self.parts, self.codes, strict=True)]
        )
        order = np.argsort(-np.einsum("ij,ij->i", R, R), kind="stable")
        return np.asarray(R[order[:k]])


def run(rows: RowSource, start: Start, weights: EnergyWeights) -> tuple[Outcome, SCNNTraining]:
    rows.set_codes(start.C, weights.thresholding)
    training = SCNNTraining(rows, start.D, start.C, weights, tol=1e-6)
    return train(training, max_iter=25, tol=1e-6), training


@pytest.mark.parametrize("eta", [1.0, 0.0])
@pytest.mark.parametrize("positive", [False, True])
def test_training_on_a_list_of_chunks_equals_training_in_memory(
    digits: Any, eta: float, positive: bool
) -> None:
    X, m = digits[:400], 12
    chunked = ListOfChunks(np.split(X, [1, 37, 38, 300]), m)
    in_memory = MemoryRows(X, m, n_threads=1)
    start = start_from_data(in_memory.take, X.shape, m, np.random.RandomState(0))
    start.D[:2] = 0  # these atoms are unused at first, so that they are replaced
    weights = EnergyWeights(0.1, eta, positive, ridge=None)
    expected, reference = run(in_memory, start, weights)
    outcome, training = run(chunked, start, weights)
    assert not hasattr(chunked, "X")
    assert_allclose(outcome.energy_path, expected.energy_path, rtol=1e-8)
    assert outcome.n_iter == expected.n_iter
    assert_allclose(training.D, reference.D, atol=1e-6)
    assert training.n_replaced == reference.n_replaced >= 2
    assert_allclose(np.vstack(chunked.codes), in_memory.U, atol=1e-6)
    assert_allclose(
        training.result().optimality["joint"],
        reference.result().optimality["joint"],
        rtol=1e-3,
        atol=1e-7,
    )


def test_list_of_chunks_answers_like_rows_in_memory(digits: Any) -> None:
    """Check the test's own row source where training does not use it."""
    chunked, in_memory = (
        ListOfChunks(np.split(digits, [7, 100]), 3),
        MemoryRows(digits, 3, n_threads=1),
    )
    assert chunked.shape == in_memory.shape
    assert_allclose(chunked.row_lengths().longest, in_memory.row_lengths().longest)
    assert_allclose(chunked.row_lengths().mean, in_memory.row_lengths().mean)
    indices = np.array([599, 0, 7, 6, 100, 99])
    assert_allclose(chunked.take(indices), in_memory.take(indices))


def test_protocol_has_no_further_methods() -> None:
    """Training may use only what the protocol lists; the toy source has exactly that."""
    required = {name for name in vars(RowSource) if not name.startswith("_")}
    offered = {name for name in vars(ListOfChunks) if not name.startswith("_")}
    assert offered == required
