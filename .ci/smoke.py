"""Import, fit, transform and, where skops is installed, save."""

import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np
import sklearn

import lincode

assert "numba" not in sys.modules
assert "matplotlib" not in sys.modules
X = np.random.RandomState(0).standard_normal((500, 12)) @ np.diag(np.arange(1.0, 13))
for network in (
    lincode.SCNN(8, density=2, random_state=0),
    lincode.MiniBatchSCNN(8, density=2, random_state=0, max_iter=3, max_no_improvement=None),
):
    codes = network.fit(X).transform(X)
    assert codes.shape == (500, 8)
    assert 0 < (codes != 0).mean() < 1
    assert network.inverse_transform(codes).shape == X.shape
    if importlib.util.find_spec("skops") is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model")
            lincode.save(network, path)
            assert (lincode.load(path).transform(X) == codes).all()
assert lincode.sparse_encode(X, np.eye(12), alpha=1.0).shape == X.shape
if importlib.util.find_spec("distributed") is not None:
    import lincode.dask
print(
    "lincode",
    lincode.__version__,
    "works with numpy",
    np.__version__,
    "and scikit-learn",
    sklearn.__version__,
)
