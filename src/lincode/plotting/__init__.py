"""Displays of atoms, codes and training. They need matplotlib: pip install 'lincode[plot]'.

Each display has a method ``from_estimator``, which plots and returns the display. ``plot`` plots it
again, for example into other axes.
"""

from lincode.plotting.atoms import AtomsDisplay
from lincode.plotting.codes import CodesDisplay, UsageDisplay
from lincode.plotting.interpretation import (
    CorrelatedAtomsDisplay,
    DecompositionDisplay,
    TopSamplesDisplay,
)
from lincode.plotting.reconstruction import ReconstructionDisplay
from lincode.plotting.training import EnergyDisplay

__all__ = [
    "AtomsDisplay",
    "CodesDisplay",
    "CorrelatedAtomsDisplay",
    "DecompositionDisplay",
    "EnergyDisplay",
    "ReconstructionDisplay",
    "TopSamplesDisplay",
    "UsageDisplay",
]
