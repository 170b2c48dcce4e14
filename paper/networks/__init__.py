"""The networks of the paper as scikit-learn transformers.

SCNN itself is part of lincode. Here are SCNN started and trained as in the paper, and the networks
that the paper compares it with. They exist for the experiments, so they accept dense arrays only.
This package may import ``lincode.core``; all other code of the reproduction uses the public API.
"""

from paper.networks.ascnn import ASCNN
from paper.networks.saann import SAANN
from paper.networks.scnn import PaperSCNN
from paper.networks.sparsenet import Sparsenet

__all__ = ["ASCNN", "SAANN", "PaperSCNN", "Sparsenet"]
