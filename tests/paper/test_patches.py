"""Random patches of photographs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from paper.datasets import load_bsds_patches, load_digits_small, load_photo_patches
from paper.datasets.patches import read_image, sample_patches, to_grey
from paper.errors import DataCorruptError, DataMissingError
from PIL import Image

from tests.paper.synthetic import REAL, accept_bsds, needs_bsds, write_bsds

pytestmark = pytest.mark.usefixtures("no_other_data")


@needs_bsds
def test_patches_of_the_published_images() -> None:
    X = load_bsds_patches(2000, size=12, split="test", data_dir=REAL, verify=True)
    assert X.shape == (2000, 144)
    assert X.dtype == np.float64
    assert_allclose(X.mean(axis=1), 0, atol=1e-12)
    assert 0.05 < X.std() < 0.2
    assert (abs(X) <= 1).all()


def test_each_row_is_a_patch_of_an_image(rng: np.random.Generator) -> None:
    images = [rng.random((9, 12)), rng.random((11, 8)), rng.random((5, 5))]
    X = sample_patches([0, 1, 2], lambda i: images[i], 1500, 5, 0)
    positions = {
        (image[top : top + 5, left : left + 5] - image[top : top + 5, left : left + 5].mean())
        .round(9)
        .tobytes(): (i, top, left)
        for i, image in enumerate(images)
        for top in range(image.shape[0] - 4)
        for left in range(image.shape[1] - 4)
    }
    sampled = [positions[row.reshape(5, 5).round(9).tobytes()] for row in X]
    # All images are used about equally often, and every position occurs.
    assert (np.bincount([i for i, *_ in sampled]) > 400).all()
    assert set(sampled) == set(positions.values())
    # The order is random: the first rows come from all images.
    assert {i for i, *_ in sampled[:20]} == {0, 1, 2}


@pytest.mark.parametrize("load", [load_photo_patches, load_bsds_patches])
def test_seed_determines_the_patches(
    load: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bsds(tmp_path)
    monkeypatch.setenv("LINCODE_DATA", str(tmp_path))
    X = load(50)
    assert X.shape == (50, 64)
    assert X.dtype == np.float64
    assert_allclose(X.mean(axis=1), 0, atol=1e-12)
    assert_array_equal(load(50, random_state=0), X)
    assert_array_equal(load(7), X[:7])
    assert not np.allclose(load(50, random_state=1), X)
    assert not np.allclose(load(50, split="test"), X)
    assert load(np.int64(3), size=1).tolist() == [[0]] * 3


def test_patches_of_a_split_come_from_its_own_images(tmp_path: Path) -> None:
    for split, step in (("train", 1), ("test", 4)):  # the slopes distinguish the images
        (tmp_path / "bsds300" / split).mkdir(parents=True)
        slope = np.tile(np.arange(40, dtype=np.uint8) * step, (40, 1))
        Image.fromarray(slope).save(tmp_path / "bsds300" / split / "a.jpg", quality=100)
    for split, step in (("train", 1), ("test", 4)):
        X = load_bsds_patches(30, split=split, data_dir=tmp_path).reshape(30, 8, 8)
        assert_allclose(np.diff(X, axis=2).mean() * 255, step, rtol=0.1)


def test_grey_is_between_0_and_1(tmp_path: Path) -> None:
    assert to_grey([[[0, 0, 0], [255, 255, 255]]]).tolist() == [[0, 1]]
    assert_allclose(to_grey([[[255, 0, 0]]]), 0.299)
    Image.new("L", (6, 4), 128).save(tmp_path / "grey.jpg")
    assert_allclose(read_image(tmp_path / "grey.jpg"), np.full((4, 6), 128 / 255))


def test_images_are_sorted_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bsds(tmp_path)
    X = load_bsds_patches(30, data_dir=tmp_path)
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: sorted(listed(path), reverse=True))
    assert_array_equal(load_bsds_patches(30, data_dir=tmp_path), X)


def test_unusable_images_are_refused_for_any_seed(tmp_path: Path) -> None:
    folder = write_bsds(tmp_path) / "train"
    path = folder / "zz.jpg"
    Image.new("RGB", (7, 30)).save(path)
    with pytest.raises(DataCorruptError, match=r"zz.jpg is 7 × 30, too small for patches of 8 × 8"):
        load_bsds_patches(1, data_dir=tmp_path)
    Image.new("RGB", (30, 30), (9, 9, 9)).save(path)
    with pytest.raises(DataCorruptError, match=r"zz.jpg has the same grey value everywhere"):
        load_bsds_patches(1, data_dir=tmp_path)
    content = (folder / "train-0.jpg").read_bytes()
    for bad in (b"", b"no image", content[: len(content) // 2]):
        path.write_bytes(bad)
        with pytest.raises(DataCorruptError, match=r"zz.jpg cannot be read as an image"):
            load_bsds_patches(1, data_dir=tmp_path)
    path.rename(folder / "._zz.jpg")  # macOS creates such files
    (folder / "notes.txt").write_text("no image")
    assert load_bsds_patches(1, data_dir=tmp_path).shape == (1, 64)


def test_missing_images_are_reported(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match="python -m paper data fetch bsds300"):
        load_bsds_patches(1)
    (tmp_path / "bsds300").mkdir()
    with pytest.raises(
        DataMissingError, match=r"no folder .*train: run `python -m paper data fetch"
    ):
        load_bsds_patches(1, data_dir=tmp_path)
    (tmp_path / "bsds300" / "train").mkdir()
    with pytest.raises(DataMissingError, match=r"train has no \.jpg images: run"):
        load_bsds_patches(1, data_dir=tmp_path)


def test_verify_refuses_other_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_bsds(tmp_path)
    with pytest.raises(
        DataCorruptError, match=r"must contain the 200 train images .* contains 3 images"
    ):
        load_bsds_patches(1, data_dir=tmp_path, verify=True)
    accept_bsds(monkeypatch, folder)
    load_bsds_patches(1, data_dir=tmp_path, verify=True)
    (folder / "train" / "train-1.jpg").rename(folder / "train" / "other.jpg")
    with pytest.raises(DataCorruptError, match="some are changed or have other names"):
        load_bsds_patches(1, data_dir=tmp_path, verify=True)
    (folder / "train").rename(folder / "old")
    (folder / "test").rename(folder / "train")
    with pytest.raises(DataCorruptError, match="but it contains those of the test split"):
        load_bsds_patches(1, data_dir=tmp_path, verify=True)


@pytest.mark.parametrize("load", [load_photo_patches, load_bsds_patches])
@pytest.mark.parametrize("value", [0, -1, 2.0, "2", True, None])
def test_counts_and_sizes_must_be_positive_integers(load: Callable[..., Any], value: Any) -> None:
    with pytest.raises(ValueError, match="n must be an integer of at least 1, got"):
        load(value)
    with pytest.raises(ValueError, match="size must be an integer of at least 1, got"):
        load(1, value)
    with pytest.raises(ValueError, match="split must be 'train' or 'test', got"):
        load(1, split=value)


def test_patches_may_be_as_large_as_the_photographs() -> None:
    assert load_photo_patches(1, 427).shape == (1, 427**2)
    with pytest.raises(DataCorruptError, match=r"china.jpg is 640 × 427, too small"):
        load_photo_patches(1, 428)


def test_small_digits_are_those_of_scikit_learn() -> None:
    X, y = load_digits_small()
    assert X.shape == (1797, 64)
    assert X.dtype == np.float32
    assert (X.min(), X.max()) == (-1, 1)
    assert y.dtype == np.int64
    assert y[:5].tolist() == [0, 1, 2, 3, 4]
