"""Estimators of every class with ordinary and extreme parameters, small enough to be fast."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sklearn.model_selection import KFold

from lincode import ASCNN, SAANN, SCNN, SCNNCV, MiniBatchSCNN, SparseCoder, Sparsenet

CLASSES = {
    cls.__name__: cls for cls in (SCNN, MiniBatchSCNN, SCNNCV, SAANN, ASCNN, Sparsenet, SparseCoder)
}
TINY, HUGE = 1e-300, 1e300
UNITS = st.one_of(st.none(), st.integers(1, 6), st.integers(7, 70))
WEIGHTS = st.sampled_from([1.0, 1.0, 0.0, 0.1, 10.0, 1e-8, 1e8, TINY, HUGE])
RELATIVE_ALPHAS = ["mean", "0.1*max", "0.3*mean", "1.0*max", "2*max", "0*max", "1e300*max"]
ALPHAS = st.sampled_from([*RELATIVE_ALPHAS, 0.0, 0.1, 1.0, 1e-6, 1e6, TINY, HUGE])
NUMBERS = st.sampled_from([0.0, 0.1, 0.1, 1.0, 1e-8, 1e8, TINY, HUGE])
POSITIVE = st.sampled_from([0.1, 1.0, 10.0, 1e-8, 1e8, TINY, HUGE])
SEEDS = st.integers(0, 20)

_SCNN: dict[str, st.SearchStrategy[Any]] = {
    "n_components": UNITS,
    "alpha": ALPHAS,
    "encoder_weight": WEIGHTS,
    "encoder_ridge": st.sampled_from(["auto", "auto", 0.0, 0.1, TINY, HUGE]),
    "threshold": st.sampled_from(["match", "match", "alpha", 0.0, 0.1, TINY, HUGE]),
    "threshold_mode": st.sampled_from(["hard", "soft", "top_k"]),
    "transform_n_nonzero_coefs": st.sampled_from([None, None, 1, 3, 1000]),
    "fit_gains": st.booleans(),
    "fit_decoder": st.booleans(),
    "refine_max_iter": st.sampled_from([0, 0, 0, 2]),
    "transform_algorithm": st.sampled_from(["encoder", "encoder", "exact", "lasso", "omp", "ols"]),
    "transform_alpha": st.sampled_from([None, None, 0.0, 0.1, TINY, HUGE]),
    "transform_debias": st.booleans(),
    "sparse_output": st.booleans(),
    "split_sign": st.booleans(),
    "positive_code": st.sampled_from([False, False, True]),
    "positive_dict": st.sampled_from([False, False, True]),
    "tol": st.sampled_from([1e-4, 0.0, TINY, HUGE]),
    "transform_tol": st.sampled_from([1e-6, 1e-3, 1.0, HUGE]),
    "n_jobs": st.sampled_from([1, 2, None, -1]),
    "random_state": SEEDS,
}
_LAYERS: dict[str, st.SearchStrategy[Any]] = {
    "n_components": UNITS,
    "alpha": NUMBERS,
    "init": st.sampled_from(["scaled", "paper"]),
    "learning_rate": st.sampled_from([0.005, 0.01, 0.1, 0.0, 1.0, TINY]),
    "batch_size": st.sampled_from([1, 5, 50, 10**6]),
    "max_iter": st.integers(1, 4),
    "random_state": SEEDS,
    "warm_start": st.booleans(),
}
PARAMETERS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "SCNN": {
        **_SCNN,
        "max_iter": st.integers(1, 6),
        "init": st.sampled_from(["data", "data", "paper"]),
        "init_size": st.sampled_from(["auto", None, 1, 5]),
        "solver": st.sampled_from(["auto"] * 9 + ["paper"]),
    },
    "MiniBatchSCNN": {
        **_SCNN,
        "max_iter": st.integers(1, 2),
        "batch_size": st.sampled_from([None, 1, 4, 1000]),
        "half_life": st.sampled_from([None, 1.0, 20.0, float("inf"), HUGE]),
        "max_no_improvement": st.sampled_from([None, 1, 3]),
    },
    "SAANN": {**_LAYERS, "activation": st.sampled_from(["sigmoid", "tanh", "linear"])},
    "ASCNN": {
        **_LAYERS,
        "activation": st.sampled_from(["tanh", "linear"]),
        "sigma": POSITIVE,
    },
    "Sparsenet": {
        **{name: _LAYERS[name] for name in _LAYERS if name != "init"},
        "alpha": st.one_of(st.none(), NUMBERS),
        "penalty": st.sampled_from(["log", "exp", "l1"]),
        "sigma": st.one_of(st.none(), POSITIVE),
        "variance_goal": st.one_of(st.none(), POSITIVE),
        "variance_rate": st.sampled_from([0.001, 0.0, 0.5, 0.999]),
        "gain": st.sampled_from([0.02, 0.0, 1.0, HUGE]),
        "code_steps": st.integers(1, 20),
        "transform_tol": st.sampled_from([1e-3, 1e-6, HUGE]),
        "transform_max_iter": st.sampled_from([1, 50]),
    },
    "SparseCoder": {
        "transform_algorithm": st.sampled_from(
            ["lasso", "lasso_cd", "lasso_lars", "omp", "ols", "threshold"]
        ),
        "transform_n_nonzero_coefs": st.sampled_from([None, 1, 3, 1000]),
        "transform_alpha": st.one_of(st.none(), NUMBERS),
        "split_sign": st.booleans(),
        "positive_code": st.sampled_from([False, False, True]),
        "transform_max_iter": st.sampled_from([1000, 0, 1]),
        "transform_tol": st.sampled_from([None, None, 0.0, 1e-6, HUGE]),
        "transform_debias": st.booleans(),
        "sparse_output": st.booleans(),
        "n_jobs": st.sampled_from([1, 2, None, -1]),
    },
}


@dataclass(frozen=True)
class Recipe:
    """A class and its parameters. The dictionary of SparseCoder follows from the data."""

    name: str = "SCNN"
    parameters: dict[str, Any] = field(default_factory=dict)

    def build(self, p: int) -> Any:
        """Return the estimator, not fitted; p is the number of features."""
        cls = CLASSES[self.name]
        if cls is SparseCoder:
            rng = np.random.default_rng(3)
            scale = self.parameters.get("scale", 1.0)
            parameters = {k: v for k, v in self.parameters.items() if k not in ("scale", "m")}
            D = scale * rng.standard_normal((self.parameters.get("m", 4), max(p, 1)))
            return SparseCoder(D, **parameters)
        if cls is SCNNCV:
            return SCNNCV(SCNN(**self.parameters), alpha_ratios=[0.5, 0.05], cv=KFold(2))
        return cls(**self.parameters)


@st.composite
def recipes(draw: st.DrawFn, names: tuple[str, ...] = tuple(CLASSES)) -> Recipe:
    """Few parameters differ from the defaults, or all of them."""
    name = draw(st.sampled_from(names))
    pool = dict(PARAMETERS["SCNN" if name == "SCNNCV" else name])
    if name == "SparseCoder":
        pool |= {"m": st.integers(1, 70), "scale": st.sampled_from([1.0, 1.0, 1e-100, 1e100, HUGE])}
    kept = {"max_iter", "random_state", "n_components", "batch_size", "n_jobs"}
    if draw(st.booleans()):
        kept |= set(draw(st.lists(st.sampled_from(sorted(pool)), max_size=4)))
    else:
        kept |= set(pool)
    parameters = {name: draw(values) for name, values in pool.items() if name in kept}
    return Recipe(name, parameters)
