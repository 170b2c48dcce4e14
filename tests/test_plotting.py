"""Displays: what they show, where they plot, and which errors they raise."""

from __future__ import annotations

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

from lincode import (
    ASCNN,
    SAANN,
    SCNN,
    SCNNCV,
    MiniBatchSCNN,
    SparseCoder,
    Sparsenet,
    scnn_path,
)
from lincode.exceptions import InvalidInputError, MissingDependencyError
from lincode.inspection import correlated_atoms, top_samples
from lincode.metrics import rms_error
from lincode.plotting import (
    AtomsDisplay,
    CodesDisplay,
    CorrelatedAtomsDisplay,
    DecompositionDisplay,
    EnergyDisplay,
    ReconstructionDisplay,
    TopSamplesDisplay,
    UsageDisplay,
)

mpl.use("Agg")

NAMES = [f"pixel{i}" for i in range(64)]
DISPLAYS: dict[str, Callable[..., Any]] = {
    "atoms": lambda network, X, y, **options: AtomsDisplay.from_estimator(network, **options),
    "energy": lambda network, X, y, **options: EnergyDisplay.from_estimator(network, **options),
    "usage": lambda network, X, y, **options: UsageDisplay.from_estimator(network, X, **options),
    "codes": lambda network, X, y, **options: CodesDisplay.from_estimator(network, X, **options),
    "reconstruction": lambda network, X, y, **options: ReconstructionDisplay.from_estimator(
        network, X, **options
    ),
    "top samples": lambda network, X, y, **options: TopSamplesDisplay.from_estimator(
        network, X, **options
    ),
    "correlated atoms": lambda network, X, y, **options: CorrelatedAtomsDisplay.from_estimator(
        network, X, y, **options
    ),
    "decomposition": lambda network, X, y, **options: DecompositionDisplay.from_estimator(
        network, X[:1], **options
    ),
}
NETWORKS: dict[str, Any] = {
    "SCNN": SCNN(12, random_state=0),
    "split": SCNN(12, random_state=0, split_sign=True, sparse_output=True, refine_max_iter=2),
    "MiniBatchSCNN": MiniBatchSCNN(12, random_state=0),
    "SCNNCV": SCNNCV(SCNN(12, random_state=0), alphas=["mean", "0.5*mean"], cv=2),
    "SAANN": SAANN(12, random_state=0, max_iter=2),
    "ASCNN": ASCNN(12, random_state=0, max_iter=2),
    "Sparsenet": Sparsenet(12, random_state=0, max_iter=2),
}


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def labels() -> Any:
    from sklearn.datasets import load_digits

    return load_digits().target[:600]


@pytest.fixture(scope="module")
def networks(digits: Any) -> dict[str, Any]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = {name: network.fit(digits) for name, network in NETWORKS.items()}
    return fitted | {"SparseCoder": SparseCoder(fitted["SCNN"].components_)}


def image_of(ax: Any) -> Any:
    return np.ma.filled(ax.images[0].get_array(), np.nan)


def texts_of(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


# What all displays have in common


@pytest.mark.parametrize("name", [*NETWORKS, "SparseCoder"])
@pytest.mark.parametrize("display", DISPLAYS)
@pytest.mark.filterwarnings("ignore:.*encoder")
def test_every_display_plots_every_network(
    name: str, display: str, networks: Any, digits: Any, labels: Any, tmp_path: Path
) -> None:
    if name == "SparseCoder" and display == "energy":
        with pytest.raises(InvalidInputError, match="SparseCoder has no energy_path_"):
            DISPLAYS[display](networks[name], digits, labels)
        return
    shown = DISPLAYS[display](networks[name], digits, labels)
    assert shown.ax_.figure is shown.figure_
    if name == "SCNN":
        shown.figure_.savefig(tmp_path / "figure.png")
    ax = Figure().subplots()
    assert shown.plot(ax=ax) is shown
    assert shown.ax_ is ax


@pytest.mark.parametrize("display", DISPLAYS)
def test_displays_plot_into_given_axes(
    display: str, networks: Any, digits: Any, labels: Any
) -> None:
    subfigures: Any = Figure().subfigures(1, 2)
    ax = subfigures[0].subplots()
    n_open = len(plt.get_fignums())
    assert DISPLAYS[display](networks["SCNN"], digits, labels, ax=ax).ax_ is ax
    assert len(plt.get_fignums()) == n_open


@pytest.mark.parametrize("display", DISPLAYS)
def test_pipelines_and_unfitted_networks_are_refused(
    display: str, networks: Any, digits: Any, labels: Any
) -> None:
    pipeline = make_pipeline(StandardScaler(), networks["SCNN"])
    with pytest.raises(InvalidInputError, match=r"got a Pipeline; pass its step, pipeline\['scnn'"):
        DISPLAYS[display](pipeline, digits, labels)
    with pytest.raises(NotFittedError):
        DISPLAYS[display](SCNN(), digits, labels)
    with pytest.raises(InvalidInputError, match="pass arrays to the constructor"):
        DISPLAYS[display](digits, digits, labels)


@pytest.mark.parametrize("display", DISPLAYS)
def test_missing_matplotlib_is_reported_with_the_command_that_installs_it(
    display: str, networks: Any, digits: Any, labels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingDependencyError, match=r"Display needs matplotlib; .*pip install 'lincode\[plot\]'"
    ):
        DISPLAYS[display](networks["SCNN"], digits, labels)


# Atoms


def test_atoms_are_plotted_in_a_grid_and_scaled_one_by_one() -> None:
    D = np.arange(-1.0, 23.0).reshape(4, 6)
    image = image_of(AtomsDisplay(D, image_shape=(2, 3)).plot(n_columns=2).ax_)
    assert image.shape == (5, 7)
    assert_allclose(image[:2, :3], D[0].reshape(2, 3) / 4)
    assert_allclose(image[3:, 4:], D[3].reshape(2, 3) / 22)
    assert np.isnan(image[2]).all()


def test_zero_atoms_and_incomplete_rows_are_plotted() -> None:
    image = image_of(AtomsDisplay(np.zeros((5, 9))).plot(n_columns=3).ax_)
    assert image.shape == (7, 11)
    assert not image[:3, :3].any()
    assert np.isnan(image[4:, 8:]).all()


def test_filters_are_beside_their_atoms() -> None:
    D, C = np.ones((2, 4)), -np.ones((2, 4))
    image = image_of(AtomsDisplay(D, filters=C, captions=["a", "b"]).plot(n_columns=2).ax_)
    # A caption of one row, then pairs with a gap of one pixel, and two pixels between the pairs.
    expected = [1, 1, np.nan, -1, -1, np.nan, np.nan, 1, 1, np.nan, -1, -1]
    assert_array_equal(image[1:], [expected, expected])
    assert np.isnan(image[0]).all()


def test_atoms_are_sorted_by_usage_or_energy(networks: Any, digits: Any) -> None:
    scnn = networks["SCNN"]
    U = scnn.transform(digits)
    usage = (U != 0).mean(axis=0)
    energy = np.mean(U**2, axis=0) * np.sum(scnn.components_**2, axis=1)
    display = AtomsDisplay.from_estimator(scnn)
    assert_array_equal(display.indices, np.argsort(-scnn.usage_, kind="stable"))
    assert_array_equal(display.atoms, scnn.components_[display.indices])
    display = AtomsDisplay.from_estimator(scnn, digits, filters=True, n_atoms=5, captions=True)
    assert_array_equal(display.indices, np.argsort(-usage, kind="stable")[:5])
    assert_array_equal(display.filters, scnn.encoder_[display.indices])
    assert texts_of(display.ax_)[0] == f"{display.indices[0]}: {usage.max():.2g}"
    display = AtomsDisplay.from_estimator(scnn, digits, sort_by="energy")
    assert_array_equal(display.indices, np.argsort(-energy))
    split = AtomsDisplay.from_estimator(networks["split"], digits, sort_by="energy", filters=True)
    assert_array_equal(split.filters, networks["split"].refined_encoder_[split.indices])
    assert_array_equal(AtomsDisplay.from_estimator(scnn, sort_by=None).indices, np.arange(12))


def test_other_networks_are_sorted_only_with_samples(networks: Any, digits: Any) -> None:
    saann = networks["SAANN"]
    assert_array_equal(AtomsDisplay.from_estimator(saann).indices, np.arange(12))
    with pytest.raises(InvalidInputError, match=r"X must be given .* SAANN has no usage_"):
        AtomsDisplay.from_estimator(saann, sort_by="usage")
    with pytest.raises(InvalidInputError, match="X must be given, because SAANN has no usage_"):
        UsageDisplay.from_estimator(saann)
    with pytest.raises(InvalidInputError, match="Sparsenet has no encoder_"):
        AtomsDisplay.from_estimator(networks["Sparsenet"], filters=True)


@pytest.mark.parametrize(
    ("n_features", "shape"), [(49, (7, 7)), (75, (5, 5, 3)), (50, (50,)), (3, (3,)), (1, (1,))]
)
def test_shapes_are_guessed(n_features: int, shape: tuple[int, ...]) -> None:
    from lincode.plotting.tiles import TileStyle

    assert TileStyle.of(None, n_features).shape == shape


def test_colour_images_show_zero_as_grey() -> None:
    D = np.zeros((1, 12))
    D[0, :3] = [1.0, -1.0, 0.5]
    image = AtomsDisplay(D).plot().ax_.images[0].get_array()
    assert_allclose(np.asarray(image)[:2, :2].reshape(-1, 3)[:2], [[1, 0, 0.75], [0.5] * 3])


def test_atoms_of_signals_are_lines_from_the_lowest_value_to_the_largest() -> None:
    D = np.array([[0.0, 2.0, -1.0], [0.0, 0.0, 3.0]])
    ax: Any = AtomsDisplay(D).plot().ax_
    curves = [line.get_ydata() for line in ax.lines if len(line.get_ydata()) == 3]
    zero = 60 / 1.5  # the tile has 60 units, for the range from −0.5 to 1
    assert_allclose(curves[0], [zero, 0, 60])
    assert_allclose(curves[1] - curves[1][2], [zero, zero, 0])


def test_named_features_are_listed(networks: Any, digits: Any) -> None:
    frame = pd.DataFrame(digits[:100], columns=NAMES)
    scnn = SCNN(4, random_state=0, tol=1e-2).fit(frame)
    display = AtomsDisplay.from_estimator(scnn, n_atoms=1)
    order = np.argsort(-np.abs(display.atoms[0]))
    assert texts_of(display.ax_) == [NAMES[j] for j in order[:6]]
    assert AtomsDisplay.from_estimator(scnn, image_shape=(8, 8)).ax_.images


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AtomsDisplay(np.ones(4)).plot(), "atoms must be an array with two dimensions"),
        (lambda: AtomsDisplay(np.empty((0, 4))).plot(), "atoms must be"),
        (lambda: AtomsDisplay(np.ones((2, 4)), filters=np.ones((2, 3))).plot(), "filters must"),
        (lambda: AtomsDisplay(np.ones((2, 10)), image_shape=(3, 3)).plot(), r"= 10, got \(3, 3\)"),
        (lambda: AtomsDisplay(np.ones((2, 4)), image_shape=(-2, -2)).plot(), "image_shape must be"),
        (lambda: AtomsDisplay(np.ones((2, 4)), image_shape=4).plot(), "image_shape must be"),  # type: ignore[arg-type]
        (lambda: AtomsDisplay(np.ones((2, 8)), image_shape=(2, 2, 2)).plot(), "image_shape must"),
        (lambda: AtomsDisplay(np.ones((2, 4))).plot(n_columns=0), "n_columns must be None or at"),
        (lambda: AtomsDisplay(np.ones((2, 4)), feature_names=["a"]).plot(), "one name for each"),
        (lambda: EnergyDisplay([]).plot(), "energy_path must be"),
        (lambda: EnergyDisplay([[1.0, 2.0]]).plot(), "energy_path must be"),
        (lambda: UsageDisplay.from_codes([1.0]), "codes must have two dimensions"),
        (lambda: EnergyDisplay([np.nan, 1.0, 2.0]).plot(), "energy_path must be finite"),
        (lambda: UsageDisplay.from_codes([["a"]]), "codes must be numbers"),
        (lambda: UsageDisplay([]).plot(), r"usage must be .* got shape \(0,\)"),
        (lambda: UsageDisplay([[0.5, 1.0]]).plot(), r"usage must be .* got shape \(1, 2\)"),
        (lambda: UsageDisplay([0.5, np.nan]).plot(), "usage must be finite"),
        (lambda: UsageDisplay(["a"]).plot(), "usage must be numbers"),
        (lambda: UsageDisplay([0.5], negative_usage=[0.1, 0.2]).plot(), "negative_usage must have"),
        (lambda: CodesDisplay.from_codes([[np.nan, 1], [0, 1]]), "codes must be finite"),
        (lambda: CodesDisplay([np.inf], [1], 2).plot(), "values must be finite"),
        (lambda: CodesDisplay([], [], 2).plot(kind="nonzeros"), "nonzeros must be"),
        (lambda: CodesDisplay.from_codes([[1.0]], kind="bars"), "kind must be one of"),
        (lambda: ReconstructionDisplay.from_path([], [[1.0]]), "estimators must be a list"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_bad_options_of_estimators_are_refused(networks: Any, digits: Any) -> None:
    scnn, coder = networks["SCNN"], networks["SparseCoder"]
    for options, message in [
        (dict(sort_by="name"), "sort_by must be one of"),
        (dict(sort_by="energy"), "X must be given for sort_by='energy'"),
        (dict(n_atoms=0), "n_atoms must be None or at least 1"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            AtomsDisplay.from_estimator(scnn, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="densities must be None"):
        ReconstructionDisplay.from_estimator(coder, digits, densities=[0.1])


# Codes


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_usage_counts_positive_and_negative_coefficients(form: Any) -> None:
    display = UsageDisplay.from_codes(form([[0, 1.0, 0], [-2, 1.0, 0], [0, -1, 0], [0, 1, 0]]))
    assert_allclose(display.usage, [0.25, 1, 0])
    assert_allclose(display.negative_usage, [0.25, 0.25, 0])
    assert_array_equal(display.order_, [1, 0, 2])
    ax: Any = display.ax_
    positive, both = (steps.get_data() for steps in ax.patches)
    assert_allclose(positive.values, [0.75, 0, 0])
    assert_allclose(both.values - both.baseline, [0.25, 0.25, 0])
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "mean, 41.7%" in legend
    assert "1 of 3 atoms are not used" in legend


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_histograms_contain_every_coefficient_and_every_sample(form: Any) -> None:
    rng = np.random.default_rng(0)
    U = rng.standard_normal((300, 40)) * (rng.random((300, 40)) < 0.2)
    values = CodesDisplay.from_codes(form(U))
    assert_allclose(values.sparsity, np.mean(U == 0))
    ax: Any = values.ax_
    assert ax.patches[0].get_data().values.sum() == np.count_nonzero(U)
    counts = CodesDisplay.from_codes(form(U), kind="nonzeros", label="codes")
    ax = counts.ax_
    assert ax.patches[0].get_data().values.sum() == 300
    assert_array_equal(counts.nonzeros, np.count_nonzero(U, axis=1))


def test_codes_that_are_all_zero_are_plotted() -> None:
    for kind in ("values", "nonzeros"):
        assert CodesDisplay.from_codes(np.zeros((5, 3)), kind=kind).sparsity == 1


# Training and reconstruction


def test_energy_is_plotted_relative_to_its_lowest_value() -> None:
    ax: Any = EnergyDisplay([4.0, 3.0, 2.0]).plot(label="curve").ax_
    assert_allclose(ax.lines[0].get_ydata(), [1.0, 0.5, np.nan])
    rising: Any = EnergyDisplay([4.0, 2.0, 3.0]).plot().ax_
    assert_allclose(rising.lines[0].get_ydata(), [1.0, np.nan, 0.5])
    plain: Any = EnergyDisplay([1.0, 0.0]).plot(relative=False).ax_
    assert_allclose(plain.lines[0].get_ydata(), [1.0, 0.0])


def test_energy_display_contains_the_certificates(networks: Any) -> None:
    display = EnergyDisplay.from_estimator(networks["SCNN"])
    assert_array_equal(display.energy_path, networks["SCNN"].energy_path_)
    (text,) = texts_of(display.ax_)
    for step, value in networks["SCNN"].optimality_.items():
        assert f"{step} {value:.0e}" in text
    assert display.stop_reason == networks["SCNN"].stop_reason_
    batches: Any = EnergyDisplay.from_estimator(networks["MiniBatchSCNN"])
    assert batches.ax_.get_xlabel() == "batch"
    assert batches.ax_.get_ylabel() == "energy per sample"


@pytest.mark.parametrize("form", [np.asarray, csr_matrix, pd.DataFrame])
def test_reconstruction_errors_are_those_of_calibrated_copies(
    form: Any, digits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import copy

    from lincode.plotting import reconstruction

    monkeypatch.setattr(reconstruction, "BLOCK_BYTES", 64 * 8 * 100)  # blocks of 100 samples
    X = form(digits)
    scnn = SCNN(12, random_state=0, split_sign=True).fit(X)
    before = scnn.transform(X)
    display = ReconstructionDisplay.from_estimator(scnn, X, densities=[0.5, 0.2])
    for k, density in enumerate([0.2, 0.5]):
        other = copy.deepcopy(scnn).calibrate(X, density=density)
        # In blocks, an output that is equal to the threshold may round to the other side.
        n_nonzero = np.count_nonzero(other.transform(X)) / 600
        assert_allclose(display.nonzeros[k], n_nonzero, atol=0.005)
        assert_allclose(display.errors[k], rms_error(digits, other.reconstruct(X)), rtol=1e-3)
    assert_array_equal(scnn.transform(X), before)


def test_missing_entries_do_not_count_in_the_error(networks: Any, digits: Any) -> None:
    X = digits.copy()
    X[::2, 20] = np.nan
    scnn = networks["SCNN"]
    display = ReconstructionDisplay.from_path([scnn], X)
    difference = scnn.reconstruct(X) - X
    assert_allclose(display.errors, np.sqrt(np.nanmean(difference**2)))


def test_a_path_has_one_point_per_network(digits: Any) -> None:
    path = scnn_path(digits, 8, alpha_ratios=[0.3, 0.05], random_state=0)
    display = ReconstructionDisplay.from_path(path[::-1], digits, label="path")
    U = [scnn.transform(digits) for scnn in path]
    assert_allclose(display.nonzeros, [np.count_nonzero(u) / 600 for u in U])
    assert display.errors[0] > display.errors[1]


# Interpretation


def test_top_samples_are_beside_their_atom(networks: Any, digits: Any, labels: Any) -> None:
    scnn = networks["SCNN"]
    display = TopSamplesDisplay.from_estimator(
        scnn, digits, atoms=[4, 2], n_samples=3, labels=labels
    )
    table = top_samples(scnn.transform(digits), 3, atoms=[4, 2])
    assert_array_equal(display.table.sample, table.sample)
    assert_array_equal(display.samples[1], digits[table.sample[3:]])
    assert texts_of(display.ax_)[-2:] == ["atom 4", "atom 2"]
    captions = [
        f"{label} ({value:.2g})"
        for label, value in zip(labels[table.sample[:3]], table.value, strict=False)
    ]
    assert texts_of(display.ax_)[1:4] == captions
    image = image_of(display.ax_)
    # A caption of two rows; the first sample follows a gap of two pixels.
    assert_allclose(image[2:10, 10:18].ravel(), digits[table.sample[0]])
    assert texts_of(display.plot().ax_)[1:4] == captions


def test_top_samples_need_one_label_per_sample(networks: Any, digits: Any, labels: Any) -> None:
    for wrong in (labels[:3], np.tile(labels, 2), np.c_[labels, labels], "label"):
        message = rf"one label for each of {len(digits)} samples, got shape .*remove labels"
        with pytest.raises(InvalidInputError, match=message):
            TopSamplesDisplay.from_estimator(networks["SCNN"], digits, labels=wrong)


def test_the_error_for_split_signs_says_how_atoms_are_numbered(networks: Any, digits: Any) -> None:
    split, plain = networks["split"], networks["SCNN"]
    assert (TopSamplesDisplay.from_estimator(split, digits, atoms=[11]).table.atom == 11).all()
    message = r"between 0 and 11, got \[12\]; with split_sign=True .* the row of components_"
    with pytest.raises(InvalidInputError, match=message):
        TopSamplesDisplay.from_estimator(split, digits, atoms=[12])
    with pytest.raises(InvalidInputError, match=r"between 0 and 11, got \[12\]\.$"):
        TopSamplesDisplay.from_estimator(plain, digits, atoms=[12])


def test_top_samples_of_the_most_used_atoms(networks: Any, digits: Any) -> None:
    X = csr_matrix(digits)
    display = TopSamplesDisplay.from_estimator(networks["SCNN"], X, n_atoms=2)
    usage = (networks["SCNN"].transform(X) != 0).mean(axis=0)
    assert set(display.table.atom) == set(np.argsort(-usage, kind="stable")[:2])
    assert texts_of(display.ax_)[1] == f"{display.table.value[0]:.2g}"


def test_every_label_has_a_row_of_atoms(networks: Any, digits: Any, labels: Any) -> None:
    display = CorrelatedAtomsDisplay.from_estimator(networks["split"], digits, labels, n_atoms=2)
    U = networks["SCNN"].transform(digits)
    assert len(display.rows) == 10
    assert display.labels == [str(label) for label in range(10)]
    assert display.captions[0][0].startswith(f"{display.table.atom[0]}: ")
    plain = CorrelatedAtomsDisplay.from_estimator(networks["SCNN"], digits, labels, n_atoms=2)
    assert_array_equal(plain.table.atom, correlated_atoms(U, labels, 2).atom)
    with pytest.raises(InvalidInputError, match="none is; check y"):
        CorrelatedAtomsDisplay.from_estimator(networks["SCNN"], digits, np.zeros(600, int))


def test_the_tiles_of_a_decomposition_add_up(networks: Any, digits: Any) -> None:
    display = DecompositionDisplay.from_estimator(networks["SCNN"], digits[3], n_parts=2)
    parts = display.parts
    ax = display.ax_
    image, texts = image_of(ax), texts_of(ax)
    tiles = [image[2:10, 9 * k : 9 * k + 8].ravel() for k in range(5)]
    assert texts[:2] == ["sample", "reconstruction"]
    assert texts[4] == f"{len(parts.atom) - 2} others"
    scale = max(digits[3].max(), np.abs(parts.reconstruction).max())
    assert_allclose(tiles[0] * scale, digits[3])
    total = parts.contribution[2:].sum(axis=0)
    part_scale = max(np.abs(parts.contribution[:2]).max(), np.abs(total).max())
    assert_allclose(sum(tiles[2:]) * part_scale, tiles[1] * scale, atol=1e-12)


def test_a_sample_without_parts_is_plotted(networks: Any) -> None:
    display = DecompositionDisplay.from_estimator(networks["SCNN"], np.zeros(64))
    assert texts_of(display.ax_) == ["sample", "reconstruction"]
