"""lincode: sparse codes at the price of one matrix product."""

from lincode.core.prox import soft_threshold
from lincode.estimators.cv import SCNNCV
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.path import scnn_path
from lincode.estimators.scnn import SCNN
from lincode.networks._alternate import EnergyRoseError, Iteration

__version__ = "0.1.0.dev0"

__all__ = [
    "SCNN",
    "SCNNCV",
    "EnergyRoseError",
    "Iteration",
    "MiniBatchSCNN",
    "scnn_path",
    "soft_threshold",
]
