"""Strategies for the parameters of the estimators, ordinary and extreme."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

TINY, HUGE = 1e-300, 1e300
FRACTIONS = [None, 0.1, 0.01, 1e-3, 1e-7, 0.0, 0.5, 0.99, 1.0, 2.0]
UNITS = st.one_of(st.none(), st.integers(1, 12), st.integers(64, 80))
"""From 64 units on, codes of sparse rows have a solver of their own."""
ENERGY = ("exact", "paper")
"""The algorithms of codes that belong to the energy, which refinement does not minimise."""


@dataclass(frozen=True)
class Network:
    """The parameters of one estimator; ``alpha`` follows from the data."""

    n_components: int | None = None
    alpha_fraction: float | None = 0.1
    """alpha as a fraction of ``alpha_max``; None means "auto\""""
    has_dict_init: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)

    def build(self, cls: type[Any], X: Any, p: int) -> Any:
        """Return an estimator of class ``cls`` that is not fitted; X sets its alpha."""
        known, m = cls().get_params(), p if self.n_components is None else self.n_components
        given = {name: value for name, value in self.parameters.items() if name in known}
        if isinstance(given.get("density"), int):
            given["density"] = min(given["density"], m)
        if self.has_dict_init:
            given["dict_init"] = np.random.default_rng(7).standard_normal((m, p))
        model = cls(self.n_components, **given)
        if self.alpha_fraction is not None:
            model.set_params(alpha=self.alpha_fraction * model.alpha_max(X))
        return model

    def trained_only(self) -> Network:
        """Return the network that minimises the energy."""
        energy = {"refine": False, "transform_algorithm": "exact", "density": 0.1}
        return replace(self, parameters=self.parameters | energy)


_ordinary: dict[str, st.SearchStrategy[Any]] = {
    "density": st.sampled_from([0.1, 0.3, 0.01, 1.0, 1, 4]),
    "encoder_weight": st.sampled_from([1.0, 0.1, 0.0, 10.0, 1e3]),
    "encoder_ridge": st.sampled_from(["auto", 0.0, 0.1]),
    "refine": st.booleans(),
    "transform_algorithm": st.sampled_from(
        ["encoder", "encoder", "projection", "lasso", "omp", "exact", "paper"]
    ),
    "sparse_output": st.booleans(),
    "positive_dict": st.sampled_from([False, False, True]),
    "n_jobs": st.sampled_from([1, 2]),
    "random_state": st.integers(0, 100),
    "tol": st.sampled_from([1e-4, 0.0, 1e-2]),
}
_batches: dict[str, st.SearchStrategy[Any]] = {
    "max_iter": st.integers(1, 2),
    "batch_size": st.sampled_from([7, 50, 1, None]),
    "max_no_improvement": st.sampled_from([None, 1, 3]),
}


@st.composite
def networks(draw: st.DrawFn, minibatch: bool = False) -> Network:
    """Parameters of SCNN or MiniBatchSCNN."""
    more = _batches if minibatch else {"max_iter": st.integers(1, 15)}
    parameters = draw(st.fixed_dictionaries(_ordinary | more))
    sign = draw(st.sampled_from(["any", "split", "positive"]))
    parameters.update(split_sign=sign == "split", positive_code=sign == "positive")
    if parameters["positive_code"] and parameters["transform_algorithm"] == "omp":  # refused
        parameters["transform_algorithm"] = "lasso"
    if parameters["transform_algorithm"] in ENERGY:
        parameters.update(refine=False, density=0.1)
    has_dict_init = draw(st.booleans())
    return Network(draw(UNITS), draw(st.sampled_from(FRACTIONS)), has_dict_init, parameters)


EXTREME: dict[str, st.SearchStrategy[Any]] = _ordinary | {
    "n_components": UNITS,
    "density": st.sampled_from([0.1, 0.3, TINY, 1.0, 1, 3, 1000]),
    "alpha": st.sampled_from(["auto", "auto", 0.0, 0.1, 1e-6, 1e6, TINY, HUGE]),
    "encoder_weight": st.sampled_from([1.0, 0.0, 0.1, 10.0, 1e-8, 1e8, TINY, HUGE]),
    "encoder_ridge": st.sampled_from(["auto", 0.0, 0.1, TINY, HUGE]),
    "transform_alpha": st.sampled_from([None, None, 0.0, 0.1, TINY, HUGE]),
    "split_sign": st.booleans(),
    "positive_code": st.sampled_from([False, False, True]),
    "tol": st.sampled_from([1e-4, 0.0, TINY, HUGE]),
    "max_iter": st.integers(1, 3),
}
"""Parameters of both estimators with any values, some of which are refused."""
EXTREME_BATCHES = EXTREME | {
    "batch_size": st.sampled_from([None, 1, 4, 1000]),
    "max_no_improvement": st.sampled_from([None, 1, 3]),
}
