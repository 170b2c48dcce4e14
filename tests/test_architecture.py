"""Which modules may import which, and what importing the package loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lincode

PACKAGE = Path(lincode.__file__).parent
ROOT = Path(__file__).parents[1]
MAY_IMPORT: dict[str, set[str]] = {
    "exceptions": set(),
    # Each of these may import those before it.
    "core": {"exceptions"},
    "rows": {"core", "exceptions"},
    "networks": {"core", "rows", "exceptions"},
    "estimators": {"core", "rows", "networks", "exceptions"},
    # These use the package from outside.
    "metrics": {"exceptions"},
    "inspection": {"exceptions"},
    "plotting": {"exceptions", "inspection"},
    "io": {"core", "networks", "estimators", "exceptions"},
    "callbacks": {"networks", "exceptions", "io"},
    "dask": {"core", "rows", "networks", "estimators", "exceptions"},
    "onnx": {"core", "estimators", "exceptions"},
    "cli": {"lincode", "exceptions", "callbacks", "io"},
    "__main__": {"cli"},
}
"""The modules and subpackages of lincode that each of them may import, besides itself."""
PUBLIC = {
    "lincode",
    "io",
    "dask",
    "inspection",
    "metrics",
    "onnx",
    "plotting",
    "exceptions",
    "callbacks",
}
"""The parts of the public API. The name "lincode" stands for the package itself."""
IMPORTS = [
    "lincode",
    "lincode.inspection",
    "lincode.onnx",
    "lincode.plotting",
    "lincode.callbacks",
    "lincode.cli",
]
FOREIGN = {"sklearn", "joblib", "threadpoolctl"}
"""Packages that only ``rows/threads.py`` and the estimators need."""


def imported_modules(path: Path) -> set[str]:
    """Return the full names of the modules that a file imports, at any place in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            # `from lincode import metrics` imports a module, `from lincode import SCNN` does not.
            found |= names if node.module == "lincode" else {node.module or ""}
    return found


def imported_parts(path: Path) -> set[str]:
    """Return the parts of lincode that a file imports; "lincode" stands for the package itself."""
    parts = set()
    for name in imported_modules(path):
        first, _, rest = name.partition(".")
        if first == "lincode":
            part = rest.partition(".")[0]
            is_module = (PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").is_file()
            parts.add(part if part and is_module else "lincode")
    return parts


def files_of(part: str) -> list[Path]:
    return [*PACKAGE.glob(f"{part}.py"), *(PACKAGE / part).glob("**/*.py")]


def parts_of_package() -> list[str]:
    names = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()
    }
    return sorted(names - {"__init__"})


@pytest.mark.parametrize("part", parts_of_package())
def test_imports_point_one_way(part: str) -> None:
    assert part in MAY_IMPORT, f"add the rule for lincode.{part} to MAY_IMPORT"
    files = files_of(part)
    assert files
    for path in files:
        assert imported_parts(path) <= MAY_IMPORT[part] | {part}, path


def test_layers_are_ordered() -> None:
    """The rules themselves contain no cycle."""
    remaining = {part: allowed - {"lincode"} for part, allowed in MAY_IMPORT.items()}
    while remaining:
        free = {part for part, allowed in remaining.items() if not allowed & set(remaining)}
        assert free, f"cycle among {sorted(remaining)}"
        remaining = {part: allowed for part, allowed in remaining.items() if part not in free}


def test_core_and_networks_do_not_import_scikit_learn() -> None:
    for path in [*files_of("core"), *files_of("networks"), *files_of("rows")]:
        imported = {name.partition(".")[0] for name in imported_modules(path)}
        allowed = {"joblib", "threadpoolctl"} if path.name == "threads.py" else set()
        assert not imported & (FOREIGN - allowed), path


def test_only_public_modules_of_scikit_learn_are_imported() -> None:
    for path in PACKAGE.glob("**/*.py"):
        for name in imported_modules(path):
            if name.partition(".")[0] in {"sklearn", "scipy", "numpy"}:
                assert "._" not in name, (path, name)


@pytest.mark.parametrize("folder", ["paper", "benchmarks", "examples"])
def test_code_outside_the_package_uses_the_public_api(folder: str) -> None:
    files = list((ROOT / folder).glob("**/*.py"))
    assert files, f"there are no files in {folder}"
    for path in files:
        assert imported_parts(path) <= PUBLIC, path


@pytest.mark.parametrize("module", IMPORTS)
def test_import_does_not_load_optional_or_slow_packages(module: str) -> None:
    slow = ["matplotlib", "rich", "PIL", "pooch", "numba", "pandas", "pyarrow"]
    slow += ["onnx", "skl2onnx", "skops", "torch", "array_api_compat"]
    code = (
        "import sys, sklearn.base; "
        # Callbacks of scikit-learn 1.9 import rich if it is installed.
        "import importlib.util; "
        "importlib.util.find_spec('sklearn.callback') and __import__('sklearn.callback'); "
        "before = set(sys.modules); "
        f"import {module}; new = set(sys.modules) - before; "
        f"print([name for name in {slow} if name in new])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_public_name_has_a_docstring() -> None:
    for name in lincode.__all__:
        assert getattr(lincode, name).__doc__
