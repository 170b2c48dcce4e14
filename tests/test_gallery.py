"""The examples of the gallery run without warnings, plot a figure and print a conclusion.

``make docs`` runs all of them. The tests run those that take at most about five seconds.
"""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

mpl.use("Agg")
GALLERY = Path(__file__).parents[1] / "examples" / "gallery"
EXAMPLES = sorted(GALLERY.glob("plot_*.py"))
by_name = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


@pytest.fixture
def no_windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep figures open after show, and restore the style of plots."""
    monkeypatch.setattr(plt, "show", lambda: None)
    with mpl.rc_context():
        yield
    plt.close("all")


def test_page_lists_every_example_once() -> None:
    page = (GALLERY.parents[1] / "docs" / "examples.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   \.\./examples/gallery/(\w+\.py)$", page, re.MULTILINE)
    assert len(EXAMPLES) >= 10
    assert sorted(listed) == [path.name for path in EXAMPLES]


@by_name
def test_titles_are_underlined_and_data_need_no_download(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring is not None
    over, title, under, blank = docstring.splitlines()[:4]
    assert over == under == "=" * len(title)
    assert not blank
    for heading, line in re.findall(r"^# (.+)\n# (-{3,})$", source, re.MULTILINE):
        assert len(line) == len(heading), heading
    assert "fetch_" not in source
    assert "plt.show()" in source
    last = ast.parse(source).body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    assert ast.unparse(last.value.func) == "print"


def check_audio(names: dict[str, Any]) -> None:
    assert names["scores"]["SCNN"] > 0.9 > names["scores"]["PCA"]


def check_inpainting(names: dict[str, Any]) -> None:
    assert names["best"] == "SCNN, encoder"
    known = ~names["missing"]
    for image in names["images"].values():
        assert (image[known] == names["clean"][known]).all()


def check_natural_patches(names: dict[str, Any]) -> None:
    assert names["sizes"]["SCNN"] < names["sizes"]["PCA"]


def check_network_activations(names: dict[str, Any]) -> None:
    purity = {name: values.mean() for name, values in names["purity"].items()}
    assert purity["SCNN features"] > purity["hidden units"] + 0.1


def check_spectra(names: dict[str, Any]) -> None:
    assert names["match"](names["models"]["SCNN"].components_)[0].min() > 0.98
    assert min(names["results"]["SCNN"]) > 0.95


CLAIMS = {
    "audio": check_audio,
    "inpainting": check_inpainting,
    "natural_patches": check_natural_patches,
    "network_activations": check_network_activations,
    "spectra": check_spectra,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.usefixtures("no_windows")
def test_example_runs_plots_and_concludes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(GALLERY / f"plot_{name}.py"))
    assert plt.get_fignums()
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    assert capsys.readouterr().out.rstrip().endswith(".")
    CLAIMS[name](names)
