"""The nodes of ONNX graphs for encoders and decoders, as converters of skl2onnx.

This module imports skl2onnx, so it is imported only when a model is converted. Comparisons are
written such that NaN in a sample leads to NaN in its code, and not to zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from skl2onnx import update_registered_converter
from skl2onnx.algebra.onnx_ops import (
    OnnxAbs,
    OnnxCast,
    OnnxClip,
    OnnxConcat,
    OnnxGatherElements,
    OnnxGemm,
    OnnxIdentity,
    OnnxLess,
    OnnxLessOrEqual,
    OnnxMin,
    OnnxMul,
    OnnxNeg,
    OnnxScatterElements,
    OnnxSigmoid,
    OnnxSub,
    OnnxTanh,
    OnnxTopK,
    OnnxWhere,
)
from skl2onnx.common.data_types import guess_numpy_type, guess_proto_type, guess_tensor_type
from sklearn.base import BaseEstimator, TransformerMixin

from lincode.core.encoder_step import Thresholding
from lincode.core.types import Array
from lincode.estimators.cv import SCNNCV
from lincode.estimators.exported_layers import ExportedLayers, exported_layers
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.scnn import SCNN
from lincode.estimators.sparse_coder import SparseCoder

ENCODERS = (SCNN, MiniBatchSCNN, SCNNCV, SparseCoder)
"""The classes with a converter."""


class Decoder(TransformerMixin, BaseEstimator):
    """The reconstruction of samples from codes, or from samples with ``encode=True``."""

    def __init__(self, layers: ExportedLayers, *, encode: bool) -> None:
        self.layers = layers
        self.encode = encode

    @property
    def n_features_in_(self) -> int:
        """The number of columns of the input."""
        return int(self.layers.D.shape[1] if self.encode else self.layers.n_codes)


def register() -> None:
    """Register the converters with skl2onnx. Calling it again has no further effect."""
    for encoder in ENCODERS:
        name = f"Lincode{encoder.__name__}"
        update_registered_converter(encoder, name, _set_codes_type, _convert_encoder)
    update_registered_converter(Decoder, "LincodeDecoder", _set_samples_type, _convert_decoder)


def _set_codes_type(operator: Any) -> None:
    _set_output_type(operator, exported_layers(operator.raw_operator).n_codes)


def _set_samples_type(operator: Any) -> None:
    _set_output_type(operator, operator.raw_operator.layers.D.shape[1])


def _set_output_type(operator: Any, n_columns: int) -> None:
    """Set the type and the shape of the output. The number of rows is not fixed."""
    first = operator.inputs[0]
    kind = type(guess_tensor_type(first.type))
    operator.outputs[0].type = kind([first.get_first_dimension(), n_columns])


def _convert_encoder(scope: Any, operator: Any, container: Any) -> None:
    layers = exported_layers(operator.raw_operator)
    graph = Graph(operator, container)
    U = graph.codes(graph.samples(), layers)
    graph.finish(graph.split(U) if layers.split_sign else U, scope)


def _convert_decoder(scope: Any, operator: Any, container: Any) -> None:
    decoder = operator.raw_operator
    graph, layers = Graph(operator, container), decoder.layers
    U = graph.samples()
    if decoder.encode:
        U = graph.codes(U, layers)
        D = layers.D
    else:
        D = np.vstack([layers.D, -layers.D]) if layers.split_sign else layers.D
    graph.finish(graph.node(OnnxGemm, U, graph.array(D)), scope)


class Graph:
    """The nodes of one operator. Floats have the type of its input; integers become float32."""

    def __init__(self, operator: Any, container: Any) -> None:
        self.operator, self.container, self.opset = operator, container, container.target_opset
        self.type = guess_tensor_type(operator.inputs[0].type)
        self.dtype = np.dtype(guess_numpy_type(self.type))

    def node(self, operation: Any, *inputs: Any, **attributes: Any) -> Any:
        return operation(*inputs, op_version=self.opset, **attributes)

    def array(self, values: ArrayLike) -> Array:
        """Return a constant with the type of the input."""
        return np.array(values, dtype=self.dtype, order="C")

    def samples(self) -> Any:
        """Return the input as one matrix. The columns of a data frame are separate inputs."""
        inputs = [
            x
            if type(x.type) is type(self.type)
            else self.node(OnnxCast, x, to=guess_proto_type(self.type))
            for x in self.operator.inputs
        ]
        return inputs[0] if len(inputs) == 1 else self.node(OnnxConcat, *inputs, axis=1)

    def finish(self, result: Any, scope: Any) -> None:
        """Make ``result`` the output of the operator."""
        output = self.node(OnnxIdentity, result, output_names=self.operator.outputs[:1])
        output.add_to(scope, self.container)

    def codes(self, X: Any, layers: ExportedLayers) -> Any:
        """Return the codes of X, without splitting signs."""
        Z = self.node(OnnxGemm, X, self.array(layers.C), transB=1)
        if layers.thresholding is not None:
            return self.threshold(Z, layers.thresholding)
        activations = {"sigmoid": OnnxSigmoid, "tanh": OnnxTanh, "linear": OnnxIdentity}
        return self.node(activations[layers.activation], Z)

    def threshold(self, Z: Any, rule: Thresholding) -> Any:
        """Return the codes for the output Z of the encoder."""
        if rule.mode == "top_k":
            U = self.largest(Z, rule)
        else:
            limit = self.array([min(rule.threshold, float(np.finfo(self.dtype).max))])
            U = (self.soft if rule.mode == "soft" else self.hard)(Z, limit, positive=rule.positive)
        return U if rule.gains is None else self.node(OnnxMul, U, self.array(rule.gains))

    def soft(self, Z: Any, limit: Array, *, positive: bool) -> Any:
        if positive:
            clipped = self.node(OnnxMin, Z, limit)
        else:
            clipped = self.node(OnnxClip, Z, self.array(-limit[0]), self.array(limit[0]))
        return self.node(OnnxSub, Z, clipped)

    def hard(self, Z: Any, limit: Array, *, positive: bool) -> Any:
        magnitude = Z if positive else self.node(OnnxAbs, Z)
        is_zero = self.node(OnnxLessOrEqual, magnitude, limit)
        return self.node(OnnxWhere, is_zero, self.array([0]), Z)

    def largest(self, Z: Any, rule: Thresholding) -> Any:
        """Keep the k largest entries of each row. Of equal entries, TopK chooses the first ones."""
        magnitude = self.positive_part(Z) if rule.positive else self.node(OnnxAbs, Z)
        source = magnitude if rule.positive else Z
        top = self.node(OnnxTopK, magnitude, np.array([rule.k], dtype=np.int64), axis=1)
        kept = self.node(OnnxGatherElements, source, top[1], axis=1)
        zeros = self.node(OnnxSub, Z, Z)
        return self.node(OnnxScatterElements, zeros, top[1], kept, axis=1)

    def split(self, U: Any) -> Any:
        """Return the positive parts and the negative parts of U as separate columns."""
        negative = self.positive_part(self.node(OnnxNeg, U))
        return self.node(OnnxConcat, self.positive_part(U), negative, axis=1)

    def positive_part(self, U: Any) -> Any:
        zero = self.array([0])
        return self.node(OnnxWhere, self.node(OnnxLess, U, zero), zero, U)
