"""scikit-learn's checks of estimators, including those that it does not run for other packages."""

from typing import Any

import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from lincode import ASCNN, SAANN, SCNN, SCNNCV, MiniBatchSCNN, Sparsenet

# Each has code of its own: transforms, signs, starts, solvers and networks.
VARIANTS = [
    SCNN(),
    SCNN(n_components=3, transform_algorithm="exact"),
    SCNN(n_components=3, transform_algorithm="lasso"),
    SCNN(n_components=3, threshold="alpha", alpha=0.05),
    SCNN(n_components=3, alpha="0.1*max"),
    SCNN(n_components=3, split_sign=True),
    SCNN(n_components=3, positive_code=True),
    SCNN(n_components=3, init="paper"),
    SCNN(n_components=3, encoder_weight=0.0),
    SCNN(n_components=3, threshold_mode="top_k", fit_decoder=True),
    SCNN(n_components=3, threshold_mode="soft", refine_max_iter=2),
    SCNN(n_components=3, solver="paper", max_iter=5),
    MiniBatchSCNN(n_components=3),
    MiniBatchSCNN(n_components=3, batch_size=7),
    MiniBatchSCNN(n_components=3, threshold_mode="top_k"),
    SAANN(n_components=3, max_iter=5),
    SAANN(n_components=3, max_iter=5, activation="linear"),
    ASCNN(n_components=3, max_iter=5),
    Sparsenet(n_components=3, max_iter=5),
    SCNNCV(SCNN(3, tol=1e-2, random_state=0), alpha_ratios=2, cv=2, target_sparsity=0.5),
]

# The checks allow few iterations, and transform arrays after fitting data frames.
pytestmark = [
    pytest.mark.filterwarnings("ignore:SCNN. max_iter was reached"),
    pytest.mark.filterwarnings("ignore:MiniBatchSCNN. max_iter passes"),
    pytest.mark.filterwarnings("ignore:(MiniBatch)?SCNN. the encoder's codes"),
    pytest.mark.filterwarnings("ignore:SCNNCV. no alpha gives codes"),
    pytest.mark.filterwarnings("ignore:SCNN. (refinement did not|the refined encoder no longer)"),
    pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names"),
]


def expected_failures(estimator: BaseEstimator) -> dict[str, str]:
    """Return the checks of weights that a variant cannot pass, with the reason."""
    reason = "the random start depends on the number and order of the samples"
    # With a given start they are equivalent: tests/estimators/test_sample_weight.py.
    failures = {
        f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")
    }
    parameters = estimator.get_params()
    if parameters.get("solver") == "paper" or parameters.get("refine_max_iter"):
        names = ("pandas_series", "not_an_array", "list", "not_overwritten", "shape")
        refused = "weights are refused with these parameters"
        failures |= {f"check_sample_weights_{name}": refused for name in names}
        if sklearn.__version__.startswith("1.6."):
            # In these versions the check passes if weights of sparse samples are refused.
            del failures["check_sample_weight_equivalence_on_sparse_data"]
    if parameters.get("solver") == "paper":
        failures["check_estimators_pickle"] = "the solver of the paper refuses missing entries"
    return failures


@parametrize_with_checks(VARIANTS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


NOT_RUN_BY_DEFAULT = [
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_get_feature_names_out_error",
    "check_dataframe_column_names_consistency",
]


@pytest.mark.parametrize("name", NOT_RUN_BY_DEFAULT)
@pytest.mark.parametrize("estimator", VARIANTS, ids=str)
def test_scikit_learn_checks_of_output_and_feature_names(
    estimator: BaseEstimator, name: str
) -> None:
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))
