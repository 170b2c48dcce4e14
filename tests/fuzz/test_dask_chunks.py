"""lincode.dask.SCNN on random chunks: the energies and codes are those of lincode.SCNN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st

import lincode
import lincode.dask
from lincode.estimators import dask_collections
from tests.fuzz import invariants as inv
from tests.fuzz.cases import fuzz
from tests.fuzz.data import Rows
from tests.fuzz.strategies import rows
from tests.fuzz.support import dense, state
from tests.fuzz.watching import attempt

pytestmark = pytest.mark.slow

DAMAGE = ("none", "none", "none", "NaN", "infinity", "columns in parts", "one dimension")
WEIGHTS = st.sampled_from([1.0, 1.0, 0.0, 10.0])


@pytest.fixture(scope="module", autouse=True)
def client() -> Iterator[Client]:
    patch = pytest.MonkeyPatch()
    patch.setattr(dask_collections, "MIN_CHUNK_ROWS", 1)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
    patch.undo()


def collection(data: Rows, chunk: int, sparse: bool, damage: str) -> Any:
    X = data.reference().astype(data.precision())
    if damage in ("NaN", "infinity"):
        X[-1, -1] = np.nan if damage == "NaN" else np.inf
    A = da.from_array(X, chunks=(min(chunk, len(X)), -1))
    if damage == "columns in parts" and data.p > 1:
        A = A.rechunk({1: 1})
    if damage == "one dimension":
        return A[:, 0]
    return A.map_blocks(scipy.sparse.csr_matrix) if sparse else A


@given(rows(largest=20), st.integers(1, 12), st.booleans(), st.sampled_from(DAMAGE), WEIGHTS)
@fuzz(6, part=0.03)
def test_chunks(data: Rows, chunk: int, sparse: bool, damage: str, weight: float) -> None:
    X = collection(data, chunk, sparse, damage)
    parameters: dict[str, Any] = {
        "max_iter": 3,
        "random_state": 0,
        "encoder_weight": weight,
        "n_jobs": 1,
    }
    model = lincode.dask.SCNN(4, **parameters)
    _, fitted = attempt(lambda: model.fit(X), "fit")
    if not fitted:
        assert not state(model), "a refused fit must not leave attributes"
        return
    assert damage == "none" or data.p == 1, f"{damage} must be refused"
    inv.check_finite(model)
    inv.check_atoms(model)
    inv.check_energy_path(model)
    local = lincode.SCNN(4, **parameters)
    reference = data.reference().astype(data.precision())
    _, fitted = attempt(lambda: local.fit(reference), "fit in memory")
    assert fitted, "what a cluster accepts must be accepted in memory"
    first, other = model.energy_path_[0], local.energy_path_[0]
    assert abs(first - other) <= 1e-4 * other, f"the energies differ: {first!r} and {other!r}"
    codes, encoded = attempt(lambda: dense(model.transform(X).compute()), "transform")
    assert encoded, "transform refused the training samples"
    expected, _ = attempt(lambda: dense(model.to_local().transform(reference)), "transform")
    assert np.isfinite(codes).all(), "codes must be finite"
    assert codes.shape == expected.shape, f"codes have shape {codes.shape}"
