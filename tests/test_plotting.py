"""Displays: what they show, where they plot, and which errors they raise."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from lincode import SCNN, MiniBatchSCNN, SparseCoder
from lincode.exceptions import InvalidInputError, MissingDependencyError
from lincode.metrics import rms_error
from lincode.plotting import (
    AtomsDisplay,
    CodesDisplay,
    EnergyDisplay,
    ReconstructionDisplay,
    describe_atoms,
)

mpl.use("Agg")

NAMES = [f"pixel{i}" for i in range(64)]
DISPLAYS: dict[str, Callable[..., Any]] = {
    "atoms": lambda network, X, **options: AtomsDisplay.from_estimator(network, **options),
    "codes": CodesDisplay.from_estimator,
    "energy": lambda network, X, **options: EnergyDisplay.from_estimator(network, **options),
    "reconstruction": ReconstructionDisplay.from_estimator,
}


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def scnn(digits: Any) -> SCNN:
    return SCNN(12, density=0.4, random_state=0).fit(digits)


def image_of(display: Any) -> Any:
    return np.ma.filled(display.ax_.images[0].get_array(), np.nan)


def legend_of(display: Any) -> list[str]:
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@pytest.mark.parametrize("name", DISPLAYS)
def test_displays_plot_into_new_and_given_axes(
    name: str, scnn: Any, digits: Any, tmp_path: Path
) -> None:
    display = DISPLAYS[name](scnn, digits)
    assert display.ax_.figure is display.figure_
    display.figure_.savefig(tmp_path / "figure.png")
    n_open = len(plt.get_fignums())
    ax = Figure().subplots()
    assert display.plot(ax=ax) is display
    assert display.ax_ is ax
    assert DISPLAYS[name](scnn, digits, ax=ax).ax_ is ax
    assert len(plt.get_fignums()) == n_open


@pytest.mark.parametrize("name", DISPLAYS)
def test_pipelines_unfitted_networks_and_a_missing_matplotlib_are_reported(
    name: str, scnn: Any, digits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(StandardScaler().fit(digits), scnn)
    with pytest.raises(InvalidInputError, match=r"got Pipeline; .* pass the step"):
        DISPLAYS[name](pipeline, digits)
    with pytest.raises(NotFittedError):
        DISPLAYS[name](SCNN(), digits)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingDependencyError, match=r"Display needs matplotlib; .*pip install 'lincode\[plot\]'"
    ):
        DISPLAYS[name](scnn, digits)


def test_atoms_are_plotted_in_a_grid_and_scaled_one_by_one() -> None:
    D = np.arange(-1.0, 17.0).reshape(3, 6)
    image = image_of(AtomsDisplay(D, image_shape=(2, 3)).plot(n_columns=2))
    assert image.shape == (5, 7)
    assert_allclose(image[:2, :3], D[0].reshape(2, 3) / 4)
    assert_allclose(image[:2, 4:], D[1].reshape(2, 3) / 10)
    assert_allclose(image[3:, :3], D[2].reshape(2, 3) / 16)
    assert np.isnan(image[2]).all()
    assert np.isnan(image[3:, 4:]).all()
    assert not image_of(AtomsDisplay(np.zeros((1, 9))).plot()).any()


@pytest.mark.parametrize(
    ("n_features", "shape"), [(49, (7, 7)), (75, (5, 5, 3)), (50, None), (3, None)]
)
def test_images_are_recognised_by_the_number_of_features(n_features: int, shape: Any) -> None:
    ax = AtomsDisplay(np.ones((1, n_features))).plot().ax_
    assert [image.get_array().shape for image in ax.images] == ([] if shape is None else [shape])  # type: ignore[union-attr]


def test_colour_images_show_zero_as_grey() -> None:
    D = np.zeros((1, 12))
    D[0, :3] = [1.0, -1.0, 0.5]
    image = image_of(AtomsDisplay(D).plot())
    assert_allclose(image.reshape(-1, 3)[:2], [[1, 0, 0.75], [0.5] * 3])


def test_other_atoms_are_lines_or_lists_of_the_features_with_large_entries() -> None:
    D = np.array([[0.0, 2.0, -4.0], [1.0, 0.0, 0.0]])
    lines: list[Any] = AtomsDisplay(D).plot().ax_.child_axes
    assert_allclose(lines[0].lines[1].get_ydata(), [0, 0.5, -1])
    assert lines[0].get_ylim() == lines[1].get_ylim()
    spectrum = AtomsDisplay(D[:1], feature_names=["sun", "sky", "sea"], image_shape=(3,)).plot()
    (tile,) = spectrum.ax_.child_axes
    assert [label.get_text() for label in tile.get_xticklabels()] == ["sun", "sea"]
    named: list[Any] = (
        AtomsDisplay(D, feature_names=["sun", "sky", "sea"], captions=["a", "b"])
        .plot()
        .ax_.child_axes
    )
    assert [text.get_text() for text in named[0].texts] == ["sea", "sky"]
    assert_allclose([bar.get_width() for bar in named[0].patches], [1, 0.5])
    assert [tile.get_title() for tile in named] == ["a", "b"]


def test_atoms_are_sorted_by_usage(scnn: Any) -> None:
    display = AtomsDisplay.from_estimator(scnn, n_atoms=5)
    assert_array_equal(display.indices, np.argsort(-scnn.usage_, kind="stable")[:5])
    assert_array_equal(display.atoms, scnn.components_[display.indices])
    text = f"{display.indices[0]}: {scnn.usage_.max():.0%}"
    assert display.ax_.texts[0].get_text() == text
    assert display.ax_.get_title() == "atom: samples that use it"
    for display in (
        AtomsDisplay.from_estimator(scnn, sort_by=None),
        AtomsDisplay.from_estimator(SparseCoder(scnn.components_)),
    ):
        assert_array_equal(display.indices, np.arange(12))


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_codes_are_counted_by_value_by_sample_and_by_atom(form: Any) -> None:
    U = form([[0, 1.0, 0], [-2, 1.0, 0], [0, -1, 0], [0, 1, 0]])
    values: Any = CodesDisplay(U).plot(label="codes")
    assert values.ax_.patches[0].get_data().values.sum() == 5
    assert legend_of(values) == ["codes: without 58.3% zeros"]
    nonzeros: Any = CodesDisplay(U).plot(kind="nonzeros")
    assert_array_equal(nonzeros.ax_.patches[0].get_data().values, [3, 1])
    assert legend_of(nonzeros) == ["1.2 of 3 on average"]
    usage: Any = CodesDisplay(U).plot(kind="usage")
    positive, both = (steps.get_data() for steps in usage.ax_.patches)
    assert_allclose(positive.values, [0.75, 0, 0])
    assert_allclose(both.values - both.baseline, [0.25, 0.25, 0])
    assert legend_of(usage)[2:] == ["mean, 41.7%", "1 of 3 atoms are not used"]


@pytest.mark.parametrize("kind", ["values", "nonzeros", "usage"])
def test_codes_that_are_all_zero_are_plotted(kind: str) -> None:
    CodesDisplay(np.zeros((5, 3))).plot(kind=kind).figure_.canvas.draw()


def test_split_signs_are_merged(scnn: Any, digits: Any) -> None:
    split = copy.deepcopy(scnn).set_params(split_sign=True, sparse_output=True)
    codes = CodesDisplay.from_estimator(split, digits).codes.toarray()
    assert_array_equal(codes, scnn.transform(digits))


def test_energy_is_plotted_relative_to_its_lowest_value(scnn: Any, digits: Any) -> None:
    rising: Any = EnergyDisplay([4.0, 2.0, 3.0]).plot().ax_
    assert_allclose(rising.lines[0].get_ydata(), [1.0, np.nan, 0.5])
    display: Any = EnergyDisplay.from_estimator(scnn)
    (text,) = (text.get_text() for text in display.ax_.texts)
    for step, value in scnn.optimality_.items():
        assert f"{step} {value:.0e}" in text
    network = MiniBatchSCNN(12, random_state=0).fit(digits)
    batches: Any = EnergyDisplay.from_estimator(network).ax_
    assert_array_equal(batches.lines[0].get_ydata(), network.energy_path_)
    assert batches.get_xlabel() == "batch"


@pytest.mark.parametrize("form", [np.asarray, csr_matrix, pd.DataFrame])
def test_reconstruction_errors_are_those_of_calibrated_copies(form: Any, digits: Any) -> None:
    X = form(digits)
    scnn = SCNN(12, random_state=0, split_sign=True).fit(X)
    before = scnn.transform(X)
    display = ReconstructionDisplay.from_estimator(scnn, X, densities=[0.5, 0.2])
    for k, density in enumerate([0.2, 0.5]):
        other = copy.deepcopy(scnn).calibrate(X, density=density)
        assert display.nonzeros[k] == np.count_nonzero(other.transform(X)) / 600
        assert_allclose(display.errors[k], rms_error(digits, other.reconstruct(X)))
    assert_array_equal(scnn.transform(X), before)


def test_an_int_density_gives_codes_with_equally_many_nonzeros(digits: Any) -> None:
    scnn = SCNN(12, density=4, transform_algorithm="projection", random_state=0).fit(digits)
    display = ReconstructionDisplay.from_estimator(scnn, digits, densities=[0.1, 0.25, 0.4])
    assert_array_equal(display.nonzeros, [1, 3, 5])
    assert (np.diff(display.errors) < 0).all()


def test_a_path_has_one_point_per_estimator_and_ignores_missing_entries(
    scnn: Any, digits: Any
) -> None:
    X = digits.copy()
    X[::2, 20] = np.nan
    sparse = copy.deepcopy(scnn).calibrate(digits, density=0.2)
    display = ReconstructionDisplay.from_path([scnn, sparse], X, label="path")
    errors = [np.sqrt(np.nanmean((each.reconstruct(X) - X) ** 2)) for each in (sparse, scnn)]
    assert_allclose(display.errors, errors)
    assert display.nonzeros[0] < display.nonzeros[1]


@pytest.mark.parametrize("sparse", [False, True])
def test_atoms_are_described_by_samples_and_features(scnn: Any, digits: Any, sparse: bool) -> None:
    network = copy.deepcopy(scnn).set_params(sparse_output=sparse)
    U = scnn.transform(digits)
    for j, found in zip([4, 2], describe_atoms(network, digits, [4, 2], n_features=3), strict=True):
        samples = np.argsort(-np.abs(U[:, j]), kind="stable")[:10]
        features = np.argsort(-np.abs(scnn.components_[j]), kind="stable")[:3]
        assert found.atom == j
        assert_array_equal(found.samples, samples)
        assert_array_equal(found.coefficients, U[samples, j])
        assert_array_equal(found.features, features)
        assert_array_equal(found.entries, scnn.components_[j, features])
    rare = describe_atoms(network, digits[:5], n_samples=5)
    assert [len(found.samples) for found in rare] == np.count_nonzero(U[:5], axis=0).tolist()


def test_the_columns_of_a_data_frame_name_the_features(digits: Any) -> None:
    frame = pd.DataFrame(digits[:100], columns=NAMES)
    scnn = SCNN(4, random_state=0, tol=1e-2).fit(frame)
    (found,) = describe_atoms(scnn, frame, [1], n_features=6)
    assert_array_equal(
        found.features, np.array(NAMES)[np.argsort(-np.abs(scnn.components_[1]))[:6]]
    )
    tile = AtomsDisplay.from_estimator(scnn, sort_by=None).ax_.child_axes[1]
    assert [text.get_text() for text in tile.texts] == found.features.tolist()
    assert AtomsDisplay.from_estimator(scnn, image_shape=(8, 8)).ax_.images


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda scnn, X: AtomsDisplay(X, image_shape=(3, 3)).plot(), r"= 64, got \(3, 3\)"),
        (lambda scnn, X: AtomsDisplay(X, image_shape=(4, 8, 2)).plot(), "image_shape must be"),
        (lambda scnn, X: AtomsDisplay.from_estimator(scnn, sort_by="name"), "sort_by must be"),
        (lambda scnn, X: describe_atoms(scnn, X, feature_names=["a"]), "one name for each of 64"),
        (lambda scnn, X: CodesDisplay(X).plot(kind="bars"), "kind must be one of"),
        (
            lambda scnn, X: EnergyDisplay.from_estimator(
                Bunch(components_=X, energy_path_=np.empty(0), stop_reason_="no step was made")
            ),
            "there is no energy, because no step was made",
        ),
        (
            lambda scnn, X: ReconstructionDisplay.from_estimator(SparseCoder(X[:3]), X),
            r"use from_path\(\[estimator\], X\)",
        ),
    ],
)
def test_bad_input_is_refused(
    call: Callable[..., Any], message: str, scnn: Any, digits: Any
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call(scnn, digits)
