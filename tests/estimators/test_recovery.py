"""SCNN on data for which the answer is known."""

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA

from lincode import SCNN
from lincode.metrics import rms_error


@pytest.mark.parametrize("m", [10, 30, 50])
def test_reconstruction_without_penalty_is_that_of_pca(patches: Any, m: int) -> None:
    """Section 4.1 of the paper."""
    scnn = SCNN(m, alpha=0.0, threshold="alpha", random_state=0).fit(patches)
    pca = PCA(m).fit(patches)
    best = rms_error(patches, pca.inverse_transform(pca.transform(patches)))
    assert rms_error(patches, scnn.reconstruct(patches)) <= 1.01 * best


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("encoder_weight", [1.0, 0.0])
def test_dictionary_of_generated_data_is_recovered(seed: int, encoder_weight: float) -> None:
    rng = np.random.default_rng(seed)
    N, p, m = 3000, 64, 40
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    U = rng.standard_normal((N, m)) * (rng.random((N, m)) < 0.05)
    X = U @ D + 0.01 * rng.standard_normal((N, p))
    energy: Any = {"encoder_weight": encoder_weight, "encoder_ridge": 0}
    scnn = SCNN(m, alpha=0.02, random_state=seed, **energy).fit(X)
    cosine = np.abs(scnn.components_ @ D.T).max(axis=0)
    assert np.mean(cosine > 0.98) >= 0.95
