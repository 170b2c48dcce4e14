"""The idx format of MNIST: a magic number, the lengths of the axes, then bytes.

Everything in the header must agree with the file, or nothing of it is used.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lincode.datasets.errors import DataCorruptError

GZIP = b"\x1f\x8b"
KINDS = {2049: "labels", 2051: "images"}
"""The magic numbers: bytes along one axis, bytes along three."""


def unpack(path: Path) -> bytes:
    """The content of a file, gzipped or not: its first bytes tell, its name need not."""
    content = path.read_bytes()
    if not content.startswith(GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise DataCorruptError(
            f"{path} is truncated or damaged, gzip cannot unpack it ({error}): fetch it again."
        ) from error


def parse(content: bytes, kind: str, path: Path) -> NDArray[np.uint8]:
    """The array in idx content; ``kind`` is what it must hold, "labels" or "images".

    Examples
    --------
    >>> from pathlib import Path
    >>> from lincode.datasets.idx import parse
    >>> content = bytes([0, 0, 8, 1, 0, 0, 0, 3]) + bytes([7, 2, 1])
    >>> parse(content, "labels", Path("three-labels"))
    array([7, 2, 1], dtype=uint8)
    """
    magic = int.from_bytes(content[:4], "big")
    wanted = next(number for number, name in KINDS.items() if name == kind)
    if len(content) < 4 or magic != wanted:
        found = f"it holds {KINDS[magic]}" if magic in KINDS else f"it starts with {content[:4]!r}"
        raise DataCorruptError(
            f"{path} must be an idx file of {kind} (magic number {wanted}), but {found}."
        )
    start = 4 + 4 * content[3]  # the last byte of the magic number counts the axes
    shape = [int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4)]
    if len(content) < start or len(content) - start != math.prod(shape):
        raise DataCorruptError(
            f"{path} must have {' × '.join(map(str, shape))} bytes of {kind} after its header, as"
            f" that says, but has {max(len(content) - start, 0)}: fetch it again."
        )
    if not math.prod(shape):
        raise DataCorruptError(f"{path} must hold {kind}, but its header says it has none.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
