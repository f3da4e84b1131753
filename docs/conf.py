"""The configuration of Sphinx: pages in Markdown, nothing fetched from the network."""

from __future__ import annotations

project = "pytest-byoc"
author = "the pytest-byoc authors"
copyright = author
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "pytest-byoc"
html_show_sphinx = False
# Sessions print lines of up to 100 characters.
html_theme_options = {
    "light_css_variables": {"code-font-size": "75%"},
    "dark_css_variables": {"code-font-size": "75%"},
}
html_copy_source = False
myst_enable_extensions = ["colon_fence", "deflist"]
#: Headings down to this depth are targets of links.
myst_heading_anchors = 3
#: Pygments has no lexer for what pytest prints.
highlight_language = "text"
