"""Only paper/networks uses the core of lincode, and the data sets use nothing of lincode."""

import ast
from pathlib import Path

import paper
import pytest

import lincode

FILES = sorted(Path(paper.__file__).parent.rglob("*.py"))
PUBLIC = {"lincode", "lincode.metrics", "lincode.plotting", "lincode.exceptions"}


def imports_of(path: Path) -> set[str]:
    """Return the modules that a file imports, and for ``from lincode import name`` the name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found.add(node.module or "")
            if node.module == "lincode":
                assert {alias.name for alias in node.names} <= {*lincode.__all__}, path
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_only_the_public_api_of_lincode_is_used(path: Path) -> None:
    own = {name for name in imports_of(path) if name.startswith("lincode")} - PUBLIC
    in_networks = path.parent.name == "networks"
    assert not {name for name in own if not (in_networks and name.startswith("lincode.core."))}
