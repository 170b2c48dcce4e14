"""Compiled functions give the same bits whether they are compiled or read from the cache."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

import lincode
from lincode.core.compiler import compiled

FIT = """
import sys
import numpy as np
from lincode import MiniBatchSCNN

rng = np.random.default_rng(0)
U = rng.standard_normal((600, 40)) * (rng.random((600, 40)) < 0.1)
X = (U @ rng.standard_normal((40, 30)) + 0.01 * rng.standard_normal((600, 30))).astype(sys.argv[1])
for encoder_weight in (0, 1):
    network = MiniBatchSCNN(
        n_components=40, alpha=0.5, max_iter=2, tol=0, encoder_weight=encoder_weight, random_state=0
    )
    print(encoder_weight, network.fit(X).components_.tobytes().hex())
"""


def fit_in_new_process(dtype: str, cache: Path) -> list[str]:
    out = subprocess.run(
        [sys.executable, "-c", FIT, dtype],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return out.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_same_bits_with_and_without_the_cache(dtype: str, tmp_path: Path) -> None:
    first = fit_in_new_process(dtype, tmp_path)
    assert list(tmp_path.glob("**/*.nbc"))
    loaded = fit_in_new_process(dtype, tmp_path)
    assert len(first) == 2
    assert [a == b for a, b in zip(first, loaded, strict=True)] == [True, True]


def test_compiled_functions_call_only_inlined_functions() -> None:
    """A compiled function that is called by another one would exist twice."""
    n_calls = 0
    for path in (Path(lincode.__file__).parent / "core").glob("*.py"):
        module = ast.parse(path.read_text(encoding="utf-8"))
        decorators = {
            node.name: {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
            for node in module.body
            if isinstance(node, ast.FunctionDef)
        }
        kernels = [name for name, found in decorators.items() if found & {"compiled", "inlined"}]
        for node in module.body:
            if not isinstance(node, ast.FunctionDef) or node.name not in kernels:
                continue
            for call in ast.walk(node):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                    continue
                if call.func.id in kernels:
                    n_calls += 1
                    assert "inlined" in decorators[call.func.id], (path.name, call.func.id)
    assert n_calls > 0


def test_function_is_compiled_without_a_cache_if_no_folder_is_writable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    njit = numba.njit

    def no_cache(**options: Any) -> Any:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", no_cache)
    assert compiled(lambda x: x + 1)(2) == 3
