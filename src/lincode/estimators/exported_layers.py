"""The encoder and the decoder of an estimator as two matrices, for ONNX and PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.utils.validation import check_is_fitted

from lincode.core.encoder_step import Thresholding
from lincode.core.types import Array
from lincode.estimators.coding import CodingTransformer
from lincode.estimators.cv import SCNNCV
from lincode.estimators.sparse_coder import SparseCoder
from lincode.exceptions import InvalidInputError


@dataclass(frozen=True)
class ExportedLayers:
    """Codes U = f(X Cᵀ) and reconstructions U D, where f is a threshold or an activation."""

    C: Array
    """The encoder, shape (m, p)"""
    D: Array
    """The decoder, shape (m, p)"""
    thresholding: Thresholding | None = None
    """The threshold, or None if there is an activation"""
    activation: str = "linear"
    """"sigmoid", "tanh" or "linear\""""
    split_sign: bool = False
    """Whether the positive and negative parts of codes are separate columns"""

    @property
    def n_codes(self) -> int:
        """The number of columns of the codes."""
        return len(self.C) * (2 if self.split_sign else 1)


def exported_layers(model: Any) -> ExportedLayers:
    """Return the layers of a fitted estimator whose codes are a product and a simple function.

    Other estimators and algorithms raise an error.
    """
    if isinstance(model, SCNNCV):
        check_is_fitted(model)
        model = model.best_estimator_
    if isinstance(model, CodingTransformer):
        return _scnn_layers(model)
    if isinstance(model, SparseCoder):
        return _sparse_coder_layers(model)
    raise InvalidInputError(
        f"the codes of {type(model).__name__} are not one matrix product and a threshold or an"
        " activation, so they cannot be exported; SCNN, MiniBatchSCNN, SCNNCV and"
        " SparseCoder with transform_algorithm='threshold' can."
    )


def _scnn_layers(model: Any) -> ExportedLayers:
    check_is_fitted(model)
    model._check_parameters()
    _check_algorithm(model, "encoder")
    thresholding = model._thresholding(model._checked_gains())
    return ExportedLayers(
        model._used_encoder(), model._decoder(), thresholding, split_sign=bool(model.split_sign)
    )


def _sparse_coder_layers(model: Any) -> ExportedLayers:
    model._check_parameters()
    _check_algorithm(model, "threshold")
    D = model.components_
    alpha = 1.0 if model.transform_alpha is None else float(model.transform_alpha)
    thresholding = Thresholding("soft", alpha, positive=bool(model.positive_code))
    return ExportedLayers(D, D, thresholding, split_sign=bool(model.split_sign))


def _check_algorithm(model: Any, exported: str) -> None:
    if model.transform_algorithm != exported:
        raise InvalidInputError(
            f"only transform_algorithm={exported!r} of {type(model).__name__} can be exported,"
            f" because the codes of other algorithms are not one matrix product and a threshold;"
            f" got {model.transform_algorithm!r}. Use set_params(transform_algorithm={exported!r})."
        )
