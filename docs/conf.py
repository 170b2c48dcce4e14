"""Configuration of the documentation site; ``make docs`` builds it.

The site needs no network: MathJax comes from a package, and there are no links to the inventories
of other projects.
"""

from __future__ import annotations

import sys
from pathlib import Path

import lincode

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "lincode"
author = "The lincode developers"
version = release = lincode.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    # In the folder _ext:
    "repository_links",
    "inherited_methods",
]
exclude_patterns = [
    "_build",
    "architecture.md",  # a part of project.md
    "gallery/index.rst",  # examples.md has its place
    "gallery/*.ipynb",
    "gallery/*.py",
    "gallery/sg_execution_times.rst",
]
templates_path = ["_templates"]
highlight_language = "none"  # of blocks that do not name their language

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

autosummary_generate = True
toc_object_entries_show_parents = "hide"  # "fit" and not "SCNN.fit" beside the page
autodoc_typehints = "none"  # the docstrings describe the types
numpydoc_show_class_members = False  # the template of classes lists their methods
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("lincode",),
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1,
    "download_all_examples": False,
    "write_computation_times": False,
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = "lincode"
html_static_path = ["_static"]
html_css_files = ["lincode.css"]
html_favicon = "_static/logo.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {
        "text": f"lincode {version}",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "show_prev_next": False,
    "navbar_center": [],  # the sidebar has all pages
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "pygments_light_style": "tango",
}
html_context = {"default_mode": "light"}
html_sidebars = {"**": ["sidebar-pages"]}
copyright = "The lincode developers, BSD-3-Clause"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"
