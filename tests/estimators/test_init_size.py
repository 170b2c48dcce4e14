"""The start of training on subsets, as a parameter of SCNN."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from lincode import SCNN
from lincode.exceptions import InvalidInputError


def test_training_on_subsets_does_not_depend_on_the_number_of_threads(digits: Any) -> None:
    one, two = (SCNN(8, init_size=50, random_state=0, n_jobs=n).fit(digits) for n in (1, 2))
    assert_allclose(one.components_, two.components_, atol=1e-8)


def test_warm_start_and_given_codes_train_on_all_samples(digits: Any) -> None:
    sizes: list[int] = []
    scnn = SCNN(8, init_size=50, random_state=0, callback=lambda now: sizes.append(now.n_samples))
    scnn.fit(digits)
    assert min(sizes) == 50
    for parameters in ({"warm_start": True}, {"warm_start": False, "init": "paper"}):
        sizes.clear()
        scnn.set_params(**parameters).fit(digits)
        assert set(sizes) == {len(digits)}


def test_energy_path_is_that_of_all_samples(digits: Any) -> None:
    scnn = SCNN(8, init_size=50, random_state=0).fit(digits)
    assert scnn.energy_path_.shape == (scnn.n_iter_ + 1,)
    assert (np.diff(scnn.energy_path_) <= 0).all()
    assert_allclose(-scnn.score(digits), scnn.energy_, rtol=1e-3)


def test_stop_on_a_subset_gives_a_fitted_network(digits: Any) -> None:
    scnn = SCNN(8, init_size=50, random_state=0, callback=lambda now: True).fit(digits)
    assert scnn.n_iter_ == 1
    assert scnn.transform(digits).shape == (len(digits), 8)
    assert scnn.stop_reason_ == "the callback requested a stop"


def test_verbose_names_the_size_of_a_subset(digits: Any, capsys: Any) -> None:
    with pytest.warns(ConvergenceWarning):
        SCNN(8, init_size=50, max_iter=1, random_state=0, verbose=1).fit(digits)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("[SCNN] 50 samples: iteration 1/1")
    assert lines[-1].startswith("[SCNN] iteration 1/1")


@pytest.mark.parametrize("init_size", [0, 2.5, "all", True])
def test_init_size_must_be_a_number_of_samples(digits: Any, init_size: Any) -> None:
    with pytest.raises(InvalidInputError, match="init_size must be"):
        SCNN(8, init_size=init_size).fit(digits)
