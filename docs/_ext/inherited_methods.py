"""Which methods of scikit-learn's base classes the API reference shows, and with which text.

Their docstrings refer to pages of scikit-learn's documentation, which the site does not have.
"""

from __future__ import annotations

from typing import Any

TEXTS = {
    "fit_transform": "Call ``fit`` and then ``transform`` with the same samples.",
    "get_params": "Return the parameters as a dictionary.",
    "set_params": "Set parameters and return the estimator.",
    "set_output": 'Choose the container of codes: "default", "pandas" or "polars".',
}


def is_inherited(member: Any) -> bool:
    """Return whether a method is defined by scikit-learn."""
    return str(getattr(member, "__module__", "")).startswith("sklearn")


def skip_member(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out methods of scikit-learn that are not listed above."""
    if is_inherited(member) and name not in TEXTS:
        return True
    return None


def replace_docstring(
    app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]
) -> None:
    """Replace the docstrings of the methods that are listed above."""
    method = name.rpartition(".")[2]
    if what == "method" and is_inherited(member) and method in TEXTS:
        lines[:] = [f"{TEXTS[method]} This method is inherited from scikit-learn."]


def setup(app: Any) -> dict[str, bool]:
    """Register the functions of this file."""
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-docstring", replace_docstring, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
