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
    "training": {"core", "exceptions"},
    "encoder": {"core", "exceptions"},
    "estimators": {"core", "training", "encoder", "exceptions"},
    # These use the package from outside.
    "metrics": {"core", "exceptions"},
    "plotting": {"exceptions"},
    "dask": {"core", "training", "encoder", "estimators", "exceptions"},
    "index": {"core", "training", "estimators", "exceptions"},
    "denoise": {"core", "estimators", "exceptions"},
    "export": {"core", "estimators", "exceptions"},
    "io": {"core", "training", "encoder", "estimators", "index", "exceptions"},
    "callbacks": {"io", "training", "exceptions"},
    "cli": {"lincode", "callbacks", "io", "exceptions"},
    "__main__": {"cli"},
}
"""The modules and subpackages of lincode that each of them may import, besides itself."""
PUBLIC = {"lincode", "callbacks", "dask", "denoise", "metrics", "plotting", "exceptions"}
"""The parts of the public API. The name "lincode" stands for the package itself."""
IMPORTS = ["lincode", "lincode.callbacks", "lincode.metrics", "lincode.plotting", "lincode.cli"]
MAX_FILES, MAX_LINES = 45, 12_500


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


def test_core_does_not_import_scikit_learn() -> None:
    for path in files_of("core"):
        imported = {name.partition(".")[0] for name in imported_modules(path)}
        assert not imported & {"sklearn", "joblib", "threadpoolctl"}, path


def test_library_is_small() -> None:
    files = list(PACKAGE.glob("**/*.py"))
    assert len(files) <= MAX_FILES
    assert sum(len(path.read_text().splitlines()) for path in files) <= MAX_LINES


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
        exception = {"core"} if path.parent.name == "networks" else set()
        assert imported_parts(path) <= PUBLIC | exception, path


@pytest.mark.parametrize("module", IMPORTS)
def test_import_does_not_load_optional_or_slow_packages(module: str) -> None:
    slow = ["matplotlib", "rich", "PIL", "pooch", "numba", "pandas", "pyarrow"]
    slow += ["onnx", "skl2onnx", "skops", "torch"]
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
