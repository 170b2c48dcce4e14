"""The documentation site that ``make docs`` has built: its links, and its pages in a browser."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import CHROMIUM, run_in_browser

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if not path.relative_to(SITE).parts[0].startswith("_")
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PAGES, reason="the site is not built; run `make docs`"),
]
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
LOADED = {"img", "script", "link", "iframe", "source", "video"}
"""Elements whose addresses are loaded together with the page."""


class Page(HTMLParser):
    """The ids of a page, the addresses that it links to, and those that it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids |= {value for key in ("id", "name") if (value := values.get(key))}
        addresses = {value for key in ("href", "src") if (value := values.get(key))}
        if tag in LOADED and values.get("rel") not in ("canonical", "license"):
            self.loaded |= addresses
        self.links |= addresses


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    return {name: Page(SITE / name) for name in PAGES}


def test_site_has_all_kinds_of_pages() -> None:
    for name in ("index", "getting_started", "choose", "examples", "api", "search"):
        assert f"{name}.html" in PAGES
    assert "api/lincode.SCNN.html" in PAGES


def test_internal_links_resolve(pages: dict[str, Page]) -> None:
    broken = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = SITE / name
            if parts.path:
                target = (target.parent / unquote(parts.path)).resolve()
            other = pages.get(target.relative_to(SITE).as_posix())
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and other and anchor not in other.ids):
                broken.append(f"{name}: {link}")
    assert not broken


def test_nothing_is_loaded_from_another_host(pages: dict[str, Page]) -> None:
    other_hosts = {
        (name, address)
        for name, page in pages.items()
        for address in page.loaded
        if urlsplit(address).netloc
    }
    assert not other_hosts


def measure_pages(profile: Path, names: list[str], *, folder: Path = SITE, width: int) -> Any:
    script = f"""
      const results = {{}};
      for (const name of {json.dumps(names)}) {{
        const frame = await open("/" + name, {width});
        const {{document, faults, performance}} = frame.contentWindow;
        const root = document.documentElement;
        const wide = [...document.querySelectorAll("body *")].filter(
          element => element.getBoundingClientRect().right > root.clientWidth + 1);
        results[name] = {{
          faults,
          wide: root.scrollWidth > root.clientWidth + 1
            ? wide.slice(0, 5).map(element => element.outerHTML.slice(0, 100)) : [],
          hosts: [...new Set(performance.getEntriesByType("resource")
            .map(entry => new URL(entry.name).origin))].filter(host => host != location.origin),
          broken: [...document.images].filter(
            image => image.complete && !image.naturalWidth).map(image => image.src),
        }};
      }}
      return results;"""
    return run_in_browser(folder, profile, script, seconds=300)


@needs_browser
def test_pages_load_in_a_narrow_browser_without_faults(tmp_path: Path) -> None:
    server = measure_pages(tmp_path, PAGES, width=400)
    assert set(server.result) == set(PAGES), server.result
    wrong = {
        name: {what: found for what, found in page.items() if found}
        for name, page in server.result.items()
        if any(page.values())
    }
    assert not wrong
    assert not server.missing


@needs_browser
def test_search_finds_pages(tmp_path: Path) -> None:
    script = """
      const found = {};
      for (const words of ["calibrate", "number of non-zeros", "denoise image", "xyzzyqq"]) {
        const frame = await open("/index.html", 1400);
        const form = frame.contentDocument.querySelector("form.bd-search");
        form.querySelector("input[name=q]").value = words;
        const loaded = new Promise(done => frame.addEventListener("load", done, {once: true}));
        form.requestSubmit();
        await loaded;
        const page = frame.contentDocument;
        const summary = () => page.querySelector("#search-results .search-summary");
        await until(() => summary() && /found|did not match/.test(summary().textContent));
        await until(() => page.querySelector("#search-results li") || words == "xyzzyqq");
        found[words] = [...page.querySelectorAll("#search-results li a")].map(a => a.pathname);
        found[words].push(...frame.contentWindow.faults);
      }
      return found;"""
    found = run_in_browser(SITE, tmp_path, script, seconds=120).result
    assert "/choose.html" in found["calibrate"]
    assert found["number of non-zeros"][0] == "/choose.html"
    assert "/denoise.html" in found["denoise image"]
    assert found["xyzzyqq"] == []
