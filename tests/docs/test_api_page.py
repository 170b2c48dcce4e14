"""The API reference lists everything public, and every public object has an example."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
MODULES = [
    "lincode",
    "lincode.callbacks",
    "lincode.dask",
    "lincode.exceptions",
    "lincode.metrics",
    "lincode.plotting",
]
OF_THE_PAPER = {
    "soft_threshold",
    *(f"metrics.{name}" for name in ("error_rate", "sparsity", "sparsity_curve", "sparsity_area")),
}
"""Functions that only the reproduction of the paper calls, which the page leaves out."""


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


def test_api_page_lists_what_users_call_once() -> None:
    listed = re.findall(r"^   ([\w.]+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == set(public_objects()) - OF_THE_PAPER


@pytest.mark.parametrize("name", public_objects())
def test_public_object_has_an_example(name: str) -> None:
    value = public_objects()[name]
    if inspect.isroutine(value) or inspect.isclass(value):
        assert ">>> " in (inspect.getdoc(value) or ""), f"{name} has no example in its docstring"
