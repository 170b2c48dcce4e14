"""The loaders, on tiny data sets with the layout of the real ones."""

import gzip
import hashlib
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from paper import datasets
from paper.datasets import fetch, load_bsds_patches, load_mnist, load_photo_patches, overlap
from paper.errors import DataCorruptError, DataMissingError, PaperError
from PIL import Image
from sklearn.datasets import load_sample_image

rng = np.random.default_rng(0)
PIXELS = rng.integers(0, 256, (20, 28, 28), dtype=np.uint8)
LABELS = rng.integers(0, 10, 20, dtype=np.uint8)


def idx(array: NDArray[np.uint8]) -> bytes:
    """Return the array as the content of an idx file."""
    header = bytes([0, 0, 8, array.ndim])
    return header + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    """A folder with four files, two of them compressed."""
    (tmp_path / "mnist").mkdir()
    for images, labels in datasets.FILES.values():
        (tmp_path / "mnist" / f"{images}.gz").write_bytes(gzip.compress(idx(PIXELS)))
        (tmp_path / "mnist" / labels).write_bytes(idx(LABELS))
    return tmp_path


@pytest.fixture
def bsds(tmp_path: Path) -> Path:
    """A folder with three photographs for each split. Those of the test split are brighter."""
    for split, low in (("train", 0), ("test", 128)):
        (tmp_path / "bsds300" / split).mkdir(parents=True)
        for i in range(3):
            pixels = rng.integers(low, low + 128, (20, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "bsds300" / split / f"{i}.jpg", quality=95)
    return tmp_path


def test_digits_are_scaled_and_resized(mnist: Path) -> None:
    X, y = load_mnist(data_dir=mnist, verify=False)
    assert X.dtype == np.float32
    assert_allclose(X, PIXELS.reshape(20, -1) / 127.5 - 1, atol=1e-6)
    assert_array_equal(y, LABELS)
    small, _ = load_mnist("test", size=14, data_dir=mnist, verify=False)
    blocks = PIXELS.reshape(20, 14, 2, 14, 2).mean(axis=(2, 4))
    assert_allclose(small, blocks.reshape(20, -1) / 127.5 - 1, atol=1e-6)


def test_overlap_averages_areas() -> None:
    for side, size in ((28, 18), (8, 14), (5, 5)):
        R = overlap(side, size)
        assert_allclose(R.sum(axis=1), 1)
        assert_allclose(R.sum(axis=0), size / side)
    assert_array_equal(overlap(4, 2), [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])


def test_files_that_are_not_those_of_mnist_are_refused(mnist: Path) -> None:
    with pytest.raises(DataCorruptError, match="is not MNIST's train-images"):
        load_mnist(data_dir=mnist)
    path = mnist / "mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataCorruptError, match="is damaged"):
        load_mnist(data_dir=mnist, verify=False)
    path.unlink()
    with pytest.raises(DataMissingError, match="has no file train-images"):
        load_mnist(data_dir=mnist)


def test_data_are_searched_in_the_given_folder_or_the_variable(
    mnist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pooch.os_cache", lambda name: mnist / "cache")
    monkeypatch.setenv("LINCODE_DATA", str(mnist))
    assert datasets.find("mnist") == mnist / "mnist"
    with pytest.raises(DataMissingError, match="python -m paper fetch bsds300"):
        datasets.find("bsds300")
    with pytest.raises(DataMissingError, match="elsewhere"):
        datasets.find("mnist", mnist / "elsewhere")


def test_patches_are_centred_and_reproducible(bsds: Path) -> None:
    X = load_bsds_patches(40, 6, data_dir=bsds, random_state=3)
    assert X.shape == (40, 36)
    assert np.abs(X.mean(axis=1)).max() < 1e-12
    assert_array_equal(X[:10], load_bsds_patches(10, 6, data_dir=bsds, random_state=3))
    assert not np.array_equal(X, load_bsds_patches(40, 6, data_dir=bsds, random_state=4))
    with pytest.raises(DataCorruptError, match="does not contain the train images"):
        load_bsds_patches(1, data_dir=bsds, verify=True)
    with pytest.raises(DataMissingError, match=r"has no \.jpg images"):
        datasets.list_images(bsds)


def test_a_patch_is_a_part_of_its_grey_image() -> None:
    grey = load_photo_patches(1, 8, random_state=0)
    image = load_sample_image("china.jpg") @ datasets.LUMA / 255
    windows = np.lib.stride_tricks.sliding_window_view(image, (8, 8)).reshape(-1, 64)
    windows = windows - windows.mean(axis=1, keepdims=True)
    assert np.abs(windows - grey).max(axis=1).min() < 1e-12


def served(monkeypatch: pytest.MonkeyPatch, files: dict[str, Path]) -> list[str]:
    """Replace downloads by copies of files. The first mirror of each fails."""
    seen: list[str] = []

    def retrieve(url: str, _: Any, name: str, path: Path, processor: Any = None) -> None:
        seen.append(url)
        if url.startswith((datasets.MNIST_MIRRORS[0], datasets.BSDS_MIRRORS[0])):
            raise OSError("no network")
        path.mkdir(parents=True, exist_ok=True)
        shutil.copy(files[name], path / name)
        if processor is not None:
            processor(str(path / name), "download", None)

    monkeypatch.setattr("pooch.retrieve", retrieve)
    return seen


def test_mnist_is_fetched_from_a_mirror_and_checked(
    mnist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {n: idx(PIXELS if "images" in n else LABELS) for n in datasets.MNIST_SHA256}
    for name, content in names.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    seen = served(monkeypatch, {f"{n}.gz": tmp_path / f"{n}.gz" for n in names})
    with pytest.raises(DataCorruptError, match="is not MNIST"):
        fetch("mnist", tmp_path / "new")
    known = {name: hashlib.sha256(content).hexdigest() for name, content in names.items()}
    monkeypatch.setattr(datasets, "MNIST_SHA256", known)
    assert fetch("mnist", tmp_path / "new") == tmp_path / "new" / "mnist"
    assert len(seen) == 8, "the second call downloads nothing"


def test_bsds_is_fetched_and_checked(
    bsds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "BSDS300-images.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(bsds / "bsds300", "BSDS300/images")
    served(monkeypatch, {archive.name: archive})
    with pytest.raises(DataCorruptError, match="does not contain the train images"):
        fetch("bsds300", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    known = {}
    for split in ("train", "test"):
        images = sorted((bsds / "bsds300" / split).iterdir())
        lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in images]
        known[split] = hashlib.sha256("".join(lines).encode()).hexdigest()
    monkeypatch.setattr(datasets, "BSDS_SHA256", known)
    folder = fetch("bsds300", tmp_path / "new")
    assert len(list(folder.rglob("*.jpg"))) == 6
    assert load_bsds_patches(2, data_dir=tmp_path / "new", verify=True).shape == (2, 64)


def test_failed_downloads_name_all_mirrors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, {})
    with pytest.raises(PaperError, match="no network"):
        datasets.from_first_mirror(datasets.MNIST_MIRRORS[:1], "a.gz", tmp_path)
