"""What codes mean: the samples behind an atom, the parts of a sample, the atoms of a label.

Most functions return a table: a Bunch of arrays of equal length. ``pandas.DataFrame`` accepts it.
"""

from lincode.inspection.decomposition import decompose
from lincode.inspection.labels import correlated_atoms, label_correlations
from lincode.inspection.ranking import top_features, top_samples

__all__ = [
    "correlated_atoms",
    "decompose",
    "label_correlations",
    "top_features",
    "top_samples",
]
