"""How Sphinx reads the pages that build.py gathers."""

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "porism"
version = release = importlib.metadata.version("porism")
author = "the porism authors"
html_title = f"porism {release}"
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_nb", "site_extension"]
default_role = "py:obj"
highlight_language = "default"
maximum_signature_line_length = 88
python_display_short_literal_types = True

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # else values are shown, some of them with an address
autodoc_class_signature = "mixed"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are committed executed
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # no notebook has a widget; nothing is loaded from elsewhere

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
