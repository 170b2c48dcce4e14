"""The data of the experiments: MNIST, patches of BSDS300, and small data from scikit-learn.

``load_mnist`` and ``load_bsds_patches`` read these folders::

    mnist/       the four idx files of MNIST, gzipped (.gz) or not
    bsds300/     train/*.jpg and test/*.jpg

They are searched in ``data_dir``, or if it is not given, in the folder that the environment
variable ``LINCODE_DATA`` names and then in the user's cache folder. ``fetch`` downloads the data
and ``verify`` checks them. ``load_digits_small`` and ``load_photo_patches`` need no download.
"""

from paper.datasets.download import fetch
from paper.datasets.folders import NAMES, find
from paper.datasets.mnist import load_digits_small, load_mnist, overlap
from paper.datasets.patches import load_bsds_patches, load_photo_patches
from paper.datasets.verification import CheckedFile, verify

__all__ = [
    "NAMES",
    "CheckedFile",
    "fetch",
    "find",
    "load_bsds_patches",
    "load_digits_small",
    "load_mnist",
    "load_photo_patches",
    "overlap",
    "verify",
]
