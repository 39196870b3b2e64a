"""The documentation site: Sphinx builds it from the pages of this folder (``tox -e site``)."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
_setup = ConfigParser()
_setup.read(ROOT / "setup.cfg", encoding="utf-8")

project = "pybroker"
author = copyright = "the authors of pybroker"
version = release = _setup["metadata"]["version"]

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_llms_txt"]
exclude_patterns = ["tests", "examples"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"pybroker {version}"
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "versions.html",
        "sidebar/scroll-end.html",
    ]
}
copybutton_exclude = ".linenos, .gp"
llms_txt_summary = _setup["metadata"]["description"]
