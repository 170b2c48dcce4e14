"""Data to learn from: MNIST, patches of BSDS300, and what scikit-learn brings along.

``load_mnist`` and ``load_bsds_patches`` read a folder laid out as ::

    mnist/       the four idx files, as they are or gzipped (.gz)
    bsds300/     train/*.jpg and test/*.jpg

which is ``data_dir``, else the environment variable ``LINCODE_DATA``, else the user's cache
folder. ``fetch`` fills it, ``verify`` checks it. ``load_digits_small`` and ``load_photo_patches``
need no folder.
"""

from lincode.datasets.bsds import load_bsds_patches
from lincode.datasets.checks import Checked, verify
from lincode.datasets.download import fetch
from lincode.datasets.embedded import load_digits_small, load_photo_patches
from lincode.datasets.errors import DataCorruptError, DataMissingError
from lincode.datasets.folders import NAMES, find
from lincode.datasets.mnist import load_mnist
from lincode.datasets.resize import overlap

__all__ = [
    "NAMES",
    "Checked",
    "DataCorruptError",
    "DataMissingError",
    "fetch",
    "find",
    "load_bsds_patches",
    "load_digits_small",
    "load_mnist",
    "load_photo_patches",
    "overlap",
    "verify",
]
