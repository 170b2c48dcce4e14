"""The other examples: their parts on small data, and what Sparsenet is known for."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from matplotlib.image import imsave

from lincode import Sparsenet


def load(name: str) -> Any:
    path = Path(__file__).parents[1] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def natural() -> Any:
    return load("natural_patches")


def test_codes_of_natural_patches_are_far_from_gaussian(natural: Any) -> None:
    X = natural.patches(natural.photographs(None), 2000)
    assert X.shape == (2000, 64)
    assert X.var() == pytest.approx(0.1)
    U = Sparsenet(64, max_iter=40, random_state=0).fit_transform(X)
    pixels, codes = (scipy.stats.kurtosis(A, axis=None) for A in (X, U))
    assert codes > 2 * pixels


def test_photographs_of_a_folder_are_read(natural: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no"):
        natural.photographs(tmp_path)
    imsave(tmp_path / "a.png", np.random.default_rng(0).random((20, 30, 3)))
    (image,) = natural.photographs(tmp_path)
    assert image.shape == (20, 30)
    assert 0 <= image.min() <= image.max() <= 1
    assert natural.whitened(image).std() == pytest.approx(1)


def test_networks_are_chosen_and_drawn(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    networks = load("networks")
    monkeypatch.setattr(networks, "M", 9)
    monkeypatch.setattr(networks, "ALPHAS", dict.fromkeys(networks.ALPHAS, (0.05,)))
    monkeypatch.setattr("sys.argv", ["networks.py", "--out", str(tmp_path)])
    networks.main()
    printed = capsys.readouterr().out
    for name in ("SCNN", "ASCNN", "SAANN", "Sparsenet", "PCA"):
        assert f"| {name} |" in printed
    assert (tmp_path / "networks.png").stat().st_size > 5000
