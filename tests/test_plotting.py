import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lincode import SCNN
from lincode.exceptions import InvalidInputError, MissingDependencyError
from lincode.plotting import plot_atoms, plot_energy

mpl.use("Agg")


def image_of(ax: Any) -> Any:
    return np.ma.filled(ax.images[0].get_array(), np.nan)


def test_atoms_are_plotted_in_a_grid_and_scaled_one_by_one(tmp_path: Path) -> None:
    D = np.arange(1.0, 25.0).reshape(4, 6)
    ax: Any = plot_atoms(D, shape=(2, 3), n_columns=2)
    image = image_of(ax)
    assert image.shape == (5, 7)
    assert_allclose(image[:2, :3], D[0].reshape(2, 3) / 6)
    assert_allclose(image[3:, 4:], D[3].reshape(2, 3) / 24)
    assert np.isnan(image[2]).all()
    ax.figure.savefig(tmp_path / "atoms.png")


def test_zero_atoms_and_incomplete_rows_are_plotted() -> None:
    image = image_of(plot_atoms(np.zeros((5, 9))))
    assert image.shape == (7, 11)
    assert not image[:3, :3].any()
    assert np.isnan(image[4:, 8:]).all()


@pytest.mark.parametrize(
    ("shape", "message"),
    [((3, 3), r"n_features = 10, got \(3, 3\)"), (None, "10 is not a square number")],
)
def test_shapes_that_do_not_fit_raise_an_error(shape: tuple[int, int] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_atoms(np.ones((2, 10)), shape=shape)
    with pytest.raises(ValueError, match="two dimensions"):
        plot_atoms(np.ones(4))


def test_energy_is_plotted_relative_to_its_lowest_value() -> None:
    ax: Any = plot_energy([4.0, 3.0, 2.0], label="curve")
    assert_allclose(ax.lines[0].get_ydata(), [1.0, 0.5, np.nan])
    rising: Any = plot_energy([4.0, 2.0, 3.0])
    assert_allclose(rising.lines[0].get_ydata(), [1.0, np.nan, 0.5])
    assert plot_energy([1.0, 0.0], ax=ax) is ax


def test_networks_that_are_not_fitted_raise_an_error() -> None:
    with pytest.raises(ValueError, match="SCNN has no components_: it must be fitted first"):
        plot_atoms(SCNN())
    with pytest.raises(ValueError, match="SCNN has no energy_path_: it must be fitted first"):
        plot_energy(SCNN())


@pytest.mark.parametrize(
    "call",
    [
        lambda: plot_atoms(np.empty((0, 4))),
        lambda: plot_atoms(np.ones((2, 4)), shape=(4,)),  # type: ignore[arg-type]
        lambda: plot_atoms(np.ones((2, 4)), shape=(-2, -2)),
        lambda: plot_atoms(np.ones((2, 4)), n_columns=0),
        lambda: plot_atoms(SCNN()),
        lambda: plot_energy([]),
        lambda: plot_energy([[1.0, 2.0]]),
    ],
)
def test_bad_input_raises_invalid_input_error(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInputError, match="must be"):
        call()


def test_missing_matplotlib_is_reported_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'lincode\[plot\]'"):
        plot_atoms(np.ones((2, 4)))
    with pytest.raises(MissingDependencyError, match="plot_energy needs matplotlib"):
        plot_energy([2.0, 1.0])
