"""lincode: sparse codes that cost one matrix product."""

from lincode.denoise import denoise
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.path import scnn_path
from lincode.estimators.scnn import SCNN
from lincode.estimators.sparse_encode import SparseCoder, sparse_encode
from lincode.export import export_sae, load_sae, to_onnx
from lincode.index import SparseIndex
from lincode.io import load, save
from lincode.training.loop import Iteration

__version__ = "0.1.0"

__all__ = [
    "SCNN",
    "Iteration",
    "MiniBatchSCNN",
    "SparseCoder",
    "SparseIndex",
    "denoise",
    "export_sae",
    "load",
    "load_sae",
    "save",
    "scnn_path",
    "sparse_encode",
    "to_onnx",
]
