"""The examples networks.py, natural_patches.py and denoise.py on small data."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from matplotlib.image import imsave
from sklearn.decomposition import PCA

from lincode import ASCNN, SAANN, SCNN, Sparsenet


def load_example(name: str) -> Any:
    path = Path(__file__).parents[1] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def natural() -> Any:
    return load_example("natural_patches")


def test_codes_of_natural_patches_are_far_from_gaussian(natural: Any) -> None:
    X = natural.whitened_patches(natural.load_images(None), 2000)
    assert X.shape == (2000, 64)
    assert X.var() == pytest.approx(0.1)
    U = Sparsenet(64, max_iter=20, code_steps=10, random_state=0).fit_transform(X)
    pixels, codes = (scipy.stats.kurtosis(A, axis=None) for A in (X, U))
    assert codes > 2 * pixels


def test_images_of_a_folder_are_read(natural: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no"):
        natural.load_images(tmp_path)
    imsave(tmp_path / "a.png", np.random.default_rng(0).random((20, 30, 3)))
    (image,) = natural.load_images(tmp_path)
    assert image.shape == (20, 30)
    assert 0 <= image.min() <= image.max() <= 1
    assert natural.whiten(image).std() == pytest.approx(1)


def test_networks_are_compared_in_a_table_and_a_figure(
    monkeypatch: Any, tmp_path: Path, capsys: Any
) -> None:
    networks = load_example("networks")
    small: dict[str, list[Any]] = {
        "SCNN": [SCNN(9, 0.05, random_state=0)],
        "ASCNN": [ASCNN(9, 0.05, max_iter=2, random_state=0)],
        "SAANN": [SAANN(9, alpha, max_iter=2, random_state=0) for alpha in (0.05, 0.1)],
        "Sparsenet": [Sparsenet(9, 0.05, max_iter=1, random_state=0)],
        "PCA": [PCA(9)],
    }
    assert set(small) == set(networks.CANDIDATES)
    monkeypatch.setattr(networks, "CANDIDATES", small)
    monkeypatch.setattr(networks, "SVM_PENALTIES", (1.0,))
    monkeypatch.setattr("sys.argv", ["networks.py", "--out", str(tmp_path)])
    networks.main()
    printed = capsys.readouterr().out
    for name in ("SCNN", "ASCNN", "SAANN", "Sparsenet", "PCA"):
        assert f"| {name} |" in printed
    assert (tmp_path / "networks.png").stat().st_size > 5000


@pytest.fixture(scope="module")
def denoise() -> Any:
    return load_example("denoise")


def test_patches_are_averaged_to_the_image(denoise: Any) -> None:
    image = denoise.photograph("china.jpg", 20)
    assert image.shape == (20, 20)
    assert 0 <= image.min() < image.max() <= 1
    patches = denoise.patches_of(image)
    assert patches.X.shape == (13 * 13, 64)
    np.testing.assert_allclose(patches.X.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(patches.image(patches.X), image)
    assert denoise.psnr(image + 0.1 * (image < 0.5) - 0.1 * (image >= 0.5), image) == (
        pytest.approx(20)
    )


def test_residual_of_the_calibrated_encoder_is_the_noise(denoise: Any) -> None:
    noisy = denoise.add_noise(denoise.photograph("flower.jpg", 60))
    X = denoise.patches_of(noisy).X
    scnn = SCNN(64, 0.18, encoder_weight=0, fit_decoder=True, tol=1e-3, random_state=0).fit(X)
    residual = X - denoise.match_noise(scnn, X).reconstruct(X)
    assert np.sqrt(np.mean(residual**2)) == pytest.approx(denoise.NOISE, rel=0.03)


@pytest.mark.slow
def test_every_method_denoises(denoise: Any, monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    small = {"N_TRAINING_PATCHES": 1000, "N_COMPONENTS": 32, "ALPHA": 0.09}
    for name, value in small.items():
        monkeypatch.setattr(denoise, name, value)
    file = tmp_path / "new" / "denoised.png"
    monkeypatch.setattr("sys.argv", ["denoise.py", "--size", "64", "--out", str(file)])
    denoise.main()
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if "dB" in line]
    quality = {row[1].strip(): float(row[2].removesuffix("dB ")) for row in rows}
    noisy = quality.pop("noisy image")
    assert list(quality) == list(denoise.METHODS)
    assert min(quality.values()) > noisy + 2
    assert file.stat().st_size > 5000
