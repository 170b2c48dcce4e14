"""Count the files of lincode that a call executes.

    python benchmarks/hops.py

Few files make a call easy to follow with a debugger. A file counts if one of its functions is
called; the code that runs when a module is imported does not count.
"""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
from sklearn.datasets import load_digits

import lincode
from lincode import SCNN, MiniBatchSCNN

PACKAGE = Path(lincode.__file__).parent


def executed_files(call: Callable[[], object]) -> list[str]:
    """Return the files of lincode with a function that ``call`` executes."""
    names = {str(path): str(path.relative_to(PACKAGE)) for path in PACKAGE.glob("**/*.py")}
    found: set[str] = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        is_function = code.co_name != "<module>" and not _is_class_body(frame)
        if event == "call" and code.co_filename in names and is_function:
            found.add(names[code.co_filename])

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return sorted(found)


def _is_class_body(frame: FrameType) -> bool:
    """Report whether a frame executes the body of a class statement, at import time."""
    return "__qualname__" in frame.f_locals or "__module__" in frame.f_code.co_names[:2]


def encode_file(folder: Path, X: Any, network: SCNN) -> Callable[[], object]:
    """Return a call of ``lincode encode`` for a saved network and a file of vectors."""
    lincode.save(network, folder / "model.skops")
    np.save(folder / "X.npy", X)
    arguments = ["encode", folder / "model.skops", folder / "X.npy", "-o", folder / "U.npy"]

    def call() -> None:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.suppress(SystemExit),
            mock.patch.object(sys, "argv", ["lincode", *map(str, arguments)]),
        ):
            runpy.run_module("lincode", run_name="__main__")
        assert (folder / "U.npy").exists(), "lincode encode failed"

    return call


def executed_by_call() -> dict[str, list[str]]:
    """Return the files that each of the main calls executes."""
    X = load_digits().data[:500] / 16
    network = SCNN(64, random_state=0)
    batches = MiniBatchSCNN(64, random_state=0, max_iter=3, max_no_improvement=None)
    with tempfile.TemporaryDirectory() as folder:
        return {
            "SCNN.fit": executed_files(lambda: network.fit(X)),
            "transform": executed_files(lambda: network.transform(X)),
            "MiniBatchSCNN.fit": executed_files(lambda: batches.fit(X)),
            "lincode encode": executed_files(encode_file(Path(folder), X, network)),
        }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, files in executed_by_call().items():
        print(f"{name}: {len(files)} files")
        print("".join(f"    {file}\n" for file in files), end="")
