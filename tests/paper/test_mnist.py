"""Reading MNIST."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from paper.datasets import load_mnist, overlap
from paper.errors import DataCorruptError, DataMissingError

from tests.paper.synthetic import REAL, accept_mnist, idx, needs_mnist, write_mnist

pytestmark = pytest.mark.usefixtures("no_other_data")

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@needs_mnist
@pytest.mark.parametrize(("split", "n"), [("train", 60_000), ("test", 10_000)])
def test_mnist_is_read(split: str, n: int) -> None:
    X, y = load_mnist(split, size=14, data_dir=REAL)
    assert X.shape == (n, 196)
    assert y.shape == (n,)
    assert X.dtype == np.float32
    assert y.dtype == np.int64
    assert (X.min(), X.max()) == (-1, 1)
    # The first digits of each split, in the published order.
    assert y[:5].tolist() == {"train": [5, 0, 4, 1, 9], "test": [7, 2, 1, 0, 4]}[split]


@pytest.mark.parametrize("packed", [False, True])
def test_pixels_are_scaled_to_minus_one_to_one(tmp_path: Path, packed: bool) -> None:
    contents = write_mnist(tmp_path, packed=packed)
    X, y = load_mnist(data_dir=tmp_path, verify=False)
    pixels = np.frombuffer(contents[IMAGES], np.uint8, offset=16).reshape(20, 784)
    assert_allclose(X, pixels / 127.5 - 1, atol=1e-6)
    assert (X[pixels == 0] == -1).all()
    assert (X[pixels == 255] == 1).all()
    assert y.tolist() == list(contents[LABELS][8:])
    assert not np.array_equal(X, load_mnist("test", data_dir=tmp_path, verify=False)[0])


def test_a_gzipped_file_without_the_suffix_is_read(tmp_path: Path) -> None:
    contents = write_mnist(tmp_path)
    X, _ = load_mnist(data_dir=tmp_path, verify=False)
    (tmp_path / "mnist" / IMAGES).write_bytes(gzip.compress(contents[IMAGES]))
    assert_array_equal(load_mnist(data_dir=tmp_path, verify=False)[0], X)


@pytest.mark.parametrize("size", [1, 7, 14, 17, 20, 27, 28])
def test_smaller_images_are_averages_over_areas(tmp_path: Path, size: int) -> None:
    write_mnist(tmp_path, n=5)
    full, _ = load_mnist(data_dir=tmp_path, verify=False)
    X, _ = load_mnist(data_dir=tmp_path, size=size, verify=False)
    # Reference: repeat each pixel size × size times, then average blocks of 28 × 28.
    fine = np.kron(full.astype(float).reshape(5, 28, 28), np.ones((size, size)))
    expected = fine.reshape(5, size, 28, size, 28).mean(axis=(2, 4))
    assert X.dtype == np.float32
    assert_allclose(X, expected.reshape(5, -1), atol=1e-6)


@pytest.mark.parametrize("side", [1, 8, 28])
def test_averaging_preserves_constants_and_the_mean(side: int) -> None:
    for size in range(1, 30):
        R = overlap(side, size)
        assert R.shape == (size, side)
        assert (R >= 0).all()
        assert_allclose(R.sum(axis=1), 1)
        assert_allclose(R.sum(axis=0), size / side)
    assert_array_equal(overlap(side, side), np.eye(side))


def test_resized_white_images_are_exactly_one(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    white = np.full((20, 28, 28), 255, dtype=np.uint8)
    (tmp_path / "mnist" / IMAGES).write_bytes(idx(white))
    for size in range(14, 29):
        assert (load_mnist(size=size, data_dir=tmp_path, verify=False)[0] == 1).all()


def broken(contents: dict[str, bytes]) -> dict[str, tuple[str, bytes, str]]:
    """Return for each problem the file, its content and a part of the error message."""
    images, labels = contents[IMAGES], contents[LABELS]
    packed = gzip.compress(images)
    return {
        "truncated": (IMAGES, images[:-1], "must have 20 × 28 × 28 bytes .* but it has 15679"),
        "trailing bytes": (IMAGES, images + b"\0", "but it has 15681"),
        "truncated header": (IMAGES, images[:9], "bytes of images after the header"),
        "empty": (LABELS, b"", "must be an idx file of labels"),
        "wrong magic": (IMAGES, b"\0\0\x0d\x03" + images[4:], "it starts with"),
        "a web page": (LABELS, b"<html>not found</html>", "it starts with b'<htm'"),
        "labels for images": (IMAGES, labels, "idx file of images .* it contains labels"),
        "images for labels": (LABELS, images, "idx file of labels .* it contains images"),
        "other count": (LABELS, labels[:4] + (21).to_bytes(4, "big") + labels[8:], "21 bytes"),
        "none": (
            LABELS,
            idx(np.empty(0, dtype=np.uint8)),
            "according to its header it contains none",
        ),
        "a label too large": (LABELS, labels[:-1] + b"\x0a", "from 0 to 9, got 10"),
        "fewer labels": (LABELS, idx(np.zeros(19, dtype=np.uint8)), "has 20 and .* has 19"),
        "other size": (IMAGES, idx(np.zeros((20, 27, 28), dtype=np.uint8)), "28 × 28, got"),
        "truncated gzip": (IMAGES, packed[:-20], "gzip cannot decompress"),
        "damaged gzip": (IMAGES, packed[:99] + b"abc" + packed[102:], "gzip cannot decompress"),
        "no deflate": (IMAGES, packed[:10] + b"\xff" * 30, "gzip cannot decompress"),
        "gzip and more": (IMAGES, packed + b"more", "gzip cannot decompress"),
    }


@pytest.mark.parametrize("name", broken({IMAGES: b"", LABELS: b""}))
def test_broken_files_are_refused(tmp_path: Path, name: str) -> None:
    file, content, sentence = broken(write_mnist(tmp_path))[name]
    (tmp_path / "mnist" / file).write_bytes(content)
    with pytest.raises(DataCorruptError, match=sentence) as caught:
        load_mnist(data_dir=tmp_path, verify=False)
    assert file in str(caught.value)


def test_other_contents_are_refused_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = write_mnist(tmp_path)
    with pytest.raises(DataCorruptError, match=r"must be MNIST's train.* verify=False"):
        load_mnist(data_dir=tmp_path)
    accept_mnist(monkeypatch, contents)
    assert len(load_mnist(data_dir=tmp_path)[0]) == 20
    changed = contents[IMAGES][:-1] + bytes([contents[IMAGES][-1] ^ 1])
    (tmp_path / "mnist" / IMAGES).write_bytes(changed)
    with pytest.raises(DataCorruptError, match=r"train-images.* fetch it again"):
        load_mnist(data_dir=tmp_path)
    load_mnist("test", data_dir=tmp_path)


def test_exchanged_files_are_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = write_mnist(tmp_path)
    accept_mnist(monkeypatch, contents)
    (tmp_path / "mnist" / IMAGES).write_bytes(contents["t10k-images-idx3-ubyte"])
    with pytest.raises(DataCorruptError, match="but it is MNIST's t10k-images"):
        load_mnist(data_dir=tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match="python -m paper data fetch mnist"):
        load_mnist()
    write_mnist(tmp_path)
    (tmp_path / "mnist" / LABELS).unlink()
    with pytest.raises(
        DataMissingError, match=rf"has no file {LABELS}\.gz or {LABELS}: .*data fetch mnist"
    ):
        load_mnist(data_dir=tmp_path)


@pytest.mark.parametrize("size", [0, 29, 14.0, "14", True, None])
def test_sizes_must_be_integers_from_1_to_28(size: object) -> None:
    with pytest.raises(ValueError, match="size must be an integer from 1 to 28, got"):
        load_mnist(size=size)  # type: ignore[arg-type]


def test_unknown_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="split must be 'train' or 'test', got 'val'"):
        load_mnist("val")
