"""The default parameters give useful codes on many kinds of data."""

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.signal
import scipy.sparse
import scipy.stats
import sklearn.decomposition
import sklearn.ensemble
import sklearn.linear_model
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer

from lincode import SCNN, MiniBatchSCNN


@pytest.fixture(scope="module")
def text() -> Any:
    """TF-IDF vectors of docstrings of installed packages, as a CSR matrix."""
    modules = [
        np,
        np.linalg,
        scipy.signal,
        scipy.stats,
        scipy.sparse,
        sklearn.linear_model,
        sklearn.ensemble,
        sklearn.decomposition,
    ]
    documents = {
        text
        for module in modules
        for name in sorted(dir(module))
        if len(text := inspect.getdoc(getattr(module, name)) or "") > 200
    }
    vectorizer = TfidfVectorizer(min_df=5, max_features=400, stop_words="english")
    X = vectorizer.fit_transform(sorted(documents))
    assert X.shape[0] > 600
    return X


@pytest.fixture(scope="module")
def embeddings() -> Any:
    """Vectors of low rank plus noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 20)) @ rng.standard_normal((20, 96))
    return X + 0.5 * rng.standard_normal((1500, 96))


@pytest.fixture(scope="module")
def datasets(patches: Any, text: Any, embeddings: Any) -> dict[str, Any]:
    return {
        "digits": load_digits().data,
        "patches": patches,
        "text": text,
        "embeddings": embeddings,
    }


@pytest.mark.slow
@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize("name", ["digits", "patches", "text", "embeddings"])
@pytest.mark.parametrize("kind", [SCNN, MiniBatchSCNN])
def test_default_codes_are_sparse_but_not_empty(
    datasets: dict[str, Any], kind: Any, name: str, m: int
) -> None:
    codes = kind(m).set_params(random_state=0).fit_transform(datasets[name])
    density = np.count_nonzero(codes) / codes.size
    print(f"{kind.__name__:14} {name:10} m={m:<4} density {density:.3f}")
    assert 0.05 <= density <= 0.60
