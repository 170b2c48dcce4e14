"""The API reference lists everything public, and every public object has an example.

``public_api.txt`` contains all names and signatures, so that a change of them is seen. It is
written by ``python -m tests.docs.test_api_page``.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
LIST = Path(__file__).with_name("public_api.txt")
MODULES = [
    "lincode",
    "lincode.callbacks",
    "lincode.dask",
    "lincode.exceptions",
    "lincode.metrics",
    "lincode.plotting",
]


def public_names(module: ModuleType) -> list[str]:
    """Return ``__all__`` of a module, or what it defines if it has no such list."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and inspect.isroutine(value) | inspect.isclass(value)
        and value.__module__ == module.__name__
    ]


def public_objects() -> dict[str, Any]:
    """Return the public objects by their names, relative to lincode.

    An object of a module that is also in lincode itself has the shorter name.
    """
    objects: dict[str, Any] = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in public_names(module):
            value = getattr(module, name)
            if not any(value is other for other in objects.values()):
                objects[f"{module_name}.{name}".removeprefix("lincode.")] = value
    return objects


def signature(value: Any) -> str:
    """Return the parameters and their defaults, without annotations."""
    empty, parameters = inspect.Parameter.empty, []
    for parameter in inspect.signature(value).parameters.values():
        is_array = isinstance(parameter.default, np.ndarray)
        default = ... if is_array else parameter.default
        parameters.append(parameter.replace(annotation=empty, default=default))
    return str(inspect.Signature(parameters))


def public_signatures() -> list[str]:
    """Return the names of the public objects and of their methods, with their parameters."""
    lines = []
    for name, value in public_objects().items():
        is_error = isinstance(value, type) and issubclass(value, Exception)
        lines.append(name if is_error else name + signature(value))
        for method in dir(value) if isinstance(value, type) else ():
            found = getattr(value, method)
            own = getattr(found, "__module__", None) or ""
            if inspect.isroutine(found) and method[0] != "_" and own.startswith("lincode"):
                lines.append(f"{name}.{method}{signature(found)}")
    return sorted(lines)


def test_names_and_signatures_are_those_of_the_list() -> None:
    assert public_signatures() == LIST.read_text(encoding="utf-8").splitlines()


def test_api_page_lists_what_users_call_once() -> None:
    listed = re.findall(r"^   ([\w.]+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == set(public_objects())


@pytest.mark.parametrize("name", public_objects())
def test_public_object_has_an_example(name: str) -> None:
    value = public_objects()[name]
    if inspect.isroutine(value) or inspect.isclass(value):
        assert ">>> " in (inspect.getdoc(value) or ""), f"{name} has no example in its docstring"


if __name__ == "__main__":
    LIST.write_text("\n".join(public_signatures()) + "\n", encoding="utf-8")
