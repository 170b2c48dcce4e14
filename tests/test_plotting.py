from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lincode import SCNN
from lincode.plotting import plot_atoms, plot_energy

mpl.use("Agg")


def mosaic_of(ax: Any) -> Any:
    return np.ma.filled(ax.images[0].get_array(), np.nan)


def test_atoms_stand_in_a_grid_each_at_its_own_scale(tmp_path: Path) -> None:
    D = np.arange(1.0, 25.0).reshape(4, 6)
    ax: Any = plot_atoms(D, shape=(2, 3), n_columns=2)
    mosaic = mosaic_of(ax)
    assert mosaic.shape == (5, 7)
    assert_allclose(mosaic[:2, :3], D[0].reshape(2, 3) / 6)
    assert_allclose(mosaic[3:, 4:], D[3].reshape(2, 3) / 24)
    assert np.isnan(mosaic[2]).all()
    ax.figure.savefig(tmp_path / "atoms.png")


def test_zero_atoms_and_incomplete_rows_are_drawn() -> None:
    mosaic = mosaic_of(plot_atoms(np.zeros((5, 9))))
    assert mosaic.shape == (7, 11)
    assert not mosaic[:3, :3].any()
    assert np.isnan(mosaic[4:, 8:]).all()


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [((3, 3), r"n_features = 10, got \(3, 3\)"), (None, "10 is not one")],
)
def test_shapes_that_do_not_fit_are_refused(shape: tuple[int, int] | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        plot_atoms(np.ones((2, 10)), shape=shape)
    with pytest.raises(ValueError, match="two dimensions"):
        plot_atoms(np.ones(4))


def test_energy_is_drawn_above_its_lowest_value() -> None:
    ax: Any = plot_energy([4.0, 3.0, 2.0], label="curve")
    assert_allclose(ax.lines[0].get_ydata(), [1.0, 0.5, np.nan])
    rising: Any = plot_energy([4.0, 2.0, 3.0])
    assert_allclose(rising.lines[0].get_ydata(), [1.0, np.nan, 0.5])
    assert plot_energy([1.0, 0.0], ax=ax) is ax


def test_what_is_not_fitted_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="SCNN has no components_: it must be fitted first"):
        plot_atoms(SCNN())
    with pytest.raises(ValueError, match="SCNN has no energy_path_: it must be fitted first"):
        plot_energy(SCNN())
