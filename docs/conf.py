"""Configures Sphinx, which makes the site of these pages: `make docs`."""

from __future__ import annotations

import importlib.metadata
import re

from sphinx.application import Sphinx

from beam_tfrecords.extras import REPOSITORY, install_release

project = "beam-tfrecords"
copyright = project
release = importlib.metadata.version("beam-tfrecords")
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_external_toc",
]

# Headings have the anchors that they have on GitHub.
myst_heading_anchors = 4

# Quotes and dashes stay as they are written.
smartquotes = False

# Names in backticks are code in docstrings too.
default_role = "code"
napoleon_custom_sections = [("Settings", "params_style")]
napoleon_use_ivar = True
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 80
# Their wheels are larger than everything else together, and only their classes' names are needed.
autodoc_mock_imports = ["grain", "tensorflow", "torch"]

# Prompts and results of examples are not copied.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"beam-tfrecords {version}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
templates_path = ["_templates"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_js_files = ["names.js"]
html_theme_options = {
    "logo": {"text": "beam-tfrecords"},
    "navbar_end": ["source", "version-switcher", "theme-switcher"],
    "switcher": {"json_url": "../versions.json", "version_match": version},
    # The file is written after the build: docs/build_site.py.
    "check_switcher": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "navigation_depth": 3,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
# The source is in the repository, once that has an address; until then the site has the modules of the public names.
html_context = {"default_mode": "auto", "repository": REPOSITORY}


def name_files_of_the_repository(app: Sphinx, page: str, source: list[str]) -> None:
    """Shows the name of a page in `deploy/` in place of a link, because the site has only the pages of `docs/`."""
    source[0] = re.sub(r"\[[^]]*\]\((?:\.\./)+(deploy/[^)]*\.md)\)", r"`\1` in the repository", source[0])


def install_the_release(app: Sphinx, page: str, source: list[str]) -> None:
    """Shows commands that install the release, if there is one, in place of those that install from a clone."""
    source[0] = install_release(source[0])


def lead_searches_to_the_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Makes a place of a page the first result for each word of its comment `<!-- search: word, word -->`."""
    words = re.compile(r"^<!-- search: (.*) -->$", re.MULTILINE)
    source[0] = words.sub(lambda found: "```{index} ! " + found[1].replace(", ", ", ! ") + "\n```", source[0])


def setup(app: Sphinx) -> None:
    """Connects the functions above."""
    app.connect("source-read", lead_searches_to_the_page)
    app.connect("source-read", name_files_of_the_repository)
    app.connect("source-read", install_the_release)
