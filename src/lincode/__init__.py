"""lincode: sparse codes at the price of one matrix product."""

from lincode.core.prox import soft_threshold
from lincode.estimators.scnn import SCNN
from lincode.networks._alternate import EnergyRoseError, Iteration

__version__ = "0.1.0.dev0"

__all__ = ["SCNN", "EnergyRoseError", "Iteration", "soft_threshold"]
