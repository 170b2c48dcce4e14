"""Links that work both in the repository and in the site.

The Markdown pages link to files of the repository with relative paths. Some of these files are
pages of the site, where they have other names; so are the examples of the gallery. Links to other
Markdown files and to folders become plain text, and links to the remaining files become downloads,
which MyST does by itself.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
PAGES = {
    "benchmarks/README.md": "benchmarks.md",
    "docs/architecture.md": "project.md#architecture",
    "CONTRIBUTING.md": "project.md#contributing",
    "CHANGELOG.md": "project.md#changelog",
    "README.md": "index.md",
}
"""Files that are not pages of the site, and the pages that include them."""
GALLERY = ROOT / "examples" / "gallery"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def site_links(text: str, folder: Path) -> str:
    """Return the text of a Markdown file in ``folder`` with links that the site understands."""

    def replaced(match: re.Match[str]) -> str:
        image, label, target, anchor = match.groups(default="")
        path = (folder / target).resolve()
        if ":" in target or target.startswith("/") or not path.exists():
            return match.group()
        name = path.relative_to(ROOT).as_posix()
        if name in PAGES:
            page = PAGES[name].partition("#")[0] + anchor if anchor else PAGES[name]
            return f"[{label}](/{page})"
        if path.parent == GALLERY:
            return f"[{label}](/gallery/{path.stem}.rst)"
        if path.suffix == ".md" and path.is_relative_to(DOCS):
            return f"[{label}](/{path.relative_to(DOCS).as_posix()}{anchor})"
        if path.suffix == ".md" or path.is_dir():
            return label
        return f"{image}[{label}]({os.path.relpath(path, DOCS)}{anchor})"

    return LINK.sub(replaced, text)


def on_source_read(app: Any, docname: str, source: list[str]) -> None:
    """Change the links of a page."""
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        source[0] = site_links(source[0], path.parent)


def on_include_read(app: Any, relative_path: Path, parent: str, content: list[str]) -> None:
    """Change the links of a file that a page includes."""
    path = (DOCS / relative_path).resolve()
    if path.suffix == ".md":
        content[0] = site_links(content[0], path.parent)


def setup(app: Any) -> dict[str, bool]:
    """Register the functions of this file."""
    app.connect("source-read", on_source_read)
    app.connect("include-read", on_include_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
