"""Strategies for the parameters of the estimators, ordinary and extreme."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

TINY, HUGE = 1e-300, 1e300
FRACTIONS = [0.1, 0.01, 1e-3, 1e-7, 0.0, 0.5, 0.99, 1.0, 2.0]
UNITS = st.one_of(st.none(), st.integers(1, 12), st.integers(64, 80))
"""From 64 units on, codes of sparse rows have a solver of their own."""


@dataclass(frozen=True)
class Network:
    """The parameters of one estimator; ``alpha`` follows from the data."""

    n_components: int | None = None
    alpha_fraction: float = 0.1
    """alpha as a fraction of ``alpha_max``."""
    init: str = "data"
    """"data" or "array"."""
    parameters: dict[str, Any] = field(default_factory=dict)

    def build(self, cls: type[Any], X: Any, p: int) -> Any:
        """Return an estimator of class ``cls`` that is not fitted; X sets its alpha."""
        init: Any = self.init
        if init == "array":
            m = p if self.n_components is None else self.n_components
            init = np.random.default_rng(7).standard_normal((m, p))
        known = cls().get_params()
        given = {name: value for name, value in self.parameters.items() if name in known}
        model = cls(self.n_components, init=init, **given)
        return model.set_params(alpha=self.alpha_fraction * model.alpha_max(X))


_ordinary: dict[str, st.SearchStrategy[Any]] = {
    "encoder_weight": st.sampled_from([1.0, 0.1, 0.0, 10.0, 1e3]),
    "encoder_ridge": st.sampled_from(["auto", 0.0, 0.1]),
    "threshold": st.sampled_from(["match", "alpha", 0.0, 0.01]),
    "threshold_mode": st.sampled_from(["hard", "soft", "top_k"]),
    "fit_gains": st.booleans(),
    "fit_decoder": st.booleans(),
    "refine_max_iter": st.sampled_from([0, 0, 2]),
    "transform_algorithm": st.sampled_from(["encoder", "exact", "lasso"]),
    "transform_tol": st.sampled_from([1e-6, 1e-3]),
    "sparse_output": st.booleans(),
    "positive_dict": st.sampled_from([False, False, True]),
    "n_jobs": st.sampled_from([1, 2]),
    "random_state": st.integers(0, 100),
    "tol": st.sampled_from([1e-4, 0.0, 1e-2]),
}
_batches: dict[str, st.SearchStrategy[Any]] = {
    "max_iter": st.integers(1, 2),
    "batch_size": st.sampled_from([7, 50, 1, None]),
    "half_life": st.sampled_from([None, 1.0, 20.0, float("inf")]),
    "max_no_improvement": st.sampled_from([None, 1, 3]),
}


@st.composite
def networks(draw: st.DrawFn, minibatch: bool = False) -> Network:
    """Parameters of SCNN or MiniBatchSCNN."""
    more = _batches if minibatch else {"max_iter": st.integers(1, 15)}
    parameters = draw(st.fixed_dictionaries(_ordinary | more))
    sign = draw(st.sampled_from(["any", "split", "positive"]))
    parameters.update(split_sign=sign == "split", positive_code=sign == "positive")
    if parameters["refine_max_iter"]:  # other thresholds are refused
        parameters["threshold"] = "match"
    init = draw(st.sampled_from(["data", "array"]))
    return Network(draw(UNITS), draw(st.sampled_from(FRACTIONS)), init, parameters)


EXTREME: dict[str, st.SearchStrategy[Any]] = _ordinary | {
    "n_components": UNITS,
    "alpha": st.sampled_from(
        ["mean", "0.1*max", "1.0*max", "2*max", "1e300*max", 0.0, 0.1, 1e-6, 1e6, TINY, HUGE]
    ),
    "encoder_weight": st.sampled_from([1.0, 0.0, 0.1, 10.0, 1e-8, 1e8, TINY, HUGE]),
    "encoder_ridge": st.sampled_from(["auto", 0.0, 0.1, TINY, HUGE]),
    "threshold": st.sampled_from(["match", "match", "alpha", 0.0, 0.1, TINY, HUGE]),
    "transform_algorithm": st.sampled_from(["encoder", "exact", "lasso", "omp", "ols"]),
    "transform_n_nonzero_coefs": st.sampled_from([None, 1, 3, 1000]),
    "transform_alpha": st.sampled_from([None, 0.0, 0.1, TINY, HUGE]),
    "transform_debias": st.booleans(),
    "split_sign": st.booleans(),
    "positive_code": st.sampled_from([False, False, True]),
    "tol": st.sampled_from([1e-4, 0.0, TINY, HUGE]),
    "transform_tol": st.sampled_from([1e-6, 1e-3, 1.0, HUGE]),
    "max_iter": st.integers(1, 3),
}
"""Parameters of both estimators with any values, some of which are refused."""
EXTREME_BATCHES = EXTREME | {
    "batch_size": st.sampled_from([None, 1, 4, 1000]),
    "half_life": st.sampled_from([None, 1.0, 20.0, float("inf"), HUGE]),
    "max_no_improvement": st.sampled_from([None, 1, 3]),
}
