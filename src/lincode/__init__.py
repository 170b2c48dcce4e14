"""lincode: sparse codes that cost one matrix product."""

from lincode.core.prox import soft_threshold
from lincode.estimators.cv import SCNNCV
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.path import scnn_path
from lincode.estimators.progress import EnergyMonitor
from lincode.estimators.scnn import SCNN
from lincode.estimators.sparse_coder import SparseCoder
from lincode.estimators.sparse_encode import sparse_encode
from lincode.model_file import load, save
from lincode.networks.training import Iteration
from lincode.onnx import to_onnx

__version__ = "0.1.0.dev0"

__all__ = [
    "SCNN",
    "SCNNCV",
    "EnergyMonitor",
    "Iteration",
    "MiniBatchSCNN",
    "SparseCoder",
    "load",
    "save",
    "scnn_path",
    "soft_threshold",
    "sparse_encode",
    "to_onnx",
]
