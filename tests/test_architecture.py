"""The rooms of the house: who may import whom, and what importing costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lincode

PACKAGE = Path(lincode.__file__).parent
# Each room may use those before it and itself.
ORDER = ["core", "rows", "networks", "estimators"]
ALONE = ["metrics", "plotting"]
MAY_IMPORT = {
    "datasets": set(),
    "vectors": set(),
    "model_contents": {"core", "networks", "estimators"},
    "model_file": {"estimators", "model_contents", "vectors"},
    "experiments": {"lincode", "classifier", "datasets", "metrics", "vectors"},
    "cli": {"lincode", "datasets", "experiments", "model_file", "vectors"},
}
"""The rooms around them: what each may use besides itself."""


def rooms_imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names = [node.module or ""]
        for name in names:
            parts = name.split(".")
            if parts[0] == "lincode":
                found.add(parts[1] if len(parts) > 1 else "lincode")
    return found


@pytest.mark.parametrize("room", ORDER)
def test_imports_point_one_way(room: str) -> None:
    allowed = set(ORDER[: ORDER.index(room) + 1])
    files = list((PACKAGE / room).glob("**/*.py"))
    assert files
    for path in files:
        assert rooms_imported(path) <= allowed, path


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_around_use_what_they_may(room: str) -> None:
    files = [*PACKAGE.glob(f"{room}.py"), *(PACKAGE / room).glob("**/*.py")]
    assert files
    for path in files:
        assert rooms_imported(path) <= MAY_IMPORT[room] | {room}, path


@pytest.mark.parametrize("module", ALONE)
def test_metrics_and_plotting_import_nothing_of_ours(module: str) -> None:
    assert rooms_imported(PACKAGE / f"{module}.py") == set()


def test_the_classifier_knows_metrics_only() -> None:
    assert rooms_imported(PACKAGE / "classifier.py") == {"metrics"}


def test_core_is_numpy_and_scipy_only() -> None:
    for path in (PACKAGE / "core").glob("*.py"):
        source = path.read_text()
        assert "sklearn" not in source, path
        assert "joblib" not in source, path


def test_examples_use_the_public_door_only() -> None:
    examples = PACKAGE.parents[1] / "examples"
    for path in examples.glob("*.py"):
        assert rooms_imported(path) <= {"lincode", "classifier", "metrics", "plotting"}, path


def test_importing_loads_no_plotting_nor_progress_library() -> None:
    code = (
        "import sys, sklearn.base; before = set(sys.modules); import lincode, lincode.plotting; "
        "import lincode.datasets, lincode.cli; new = set(sys.modules) - before; "
        "print([m for m in ('matplotlib', 'rich', 'PIL', 'pooch', 'safetensors') if m in new])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_door_is_complete() -> None:
    for name in lincode.__all__:
        assert getattr(lincode, name).__doc__
