"""How Sphinx builds the site: `make docs` and `make site` call it."""

import os
import sys
from pathlib import Path

import matplotlib as mpl

import histogp

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent)]  # flowchart; benchmarks, whose results are drawn
mpl.use("agg")

project = "histogp"
author = "the histogp developers"
project_copyright = author
version = release = histogp.__version__

extensions = [
    "flowchart",
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
default_role = "obj"
autosummary_generate = True
suppress_warnings = ["ref.ref"]  # labels of scikit-learn's own pages, in docstrings that are inherited
numpydoc_class_members_toctree = False
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3

plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]
plot_rcparams = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
plot_apply_rcparams = True

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": os.sep,
    "plot_gallery": os.environ.get("HISTOGP_GALLERY", "yes") == "yes",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = "histogp"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
mathjax_path = "mathjax/tex-svg.js"
html_theme_options = {"navigation_with_keys": False, "show_prev_next": False, "header_links_before_dropdown": 8}
PAGES = ("index", "which_estimator", "from_other_libraries", "benchmarks", "contributing")
html_sidebars = {name: [] for name in PAGES}
