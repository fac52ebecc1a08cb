"""The documentation's site: `make docs` builds it into build/docs, to be read without a network."""

from importlib import metadata

project = "LexLIP"
release = metadata.version("lexlip")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"LexLIP {release}"
html_show_sphinx = False
html_copy_source = False
html_show_copyright = False
myst_heading_anchors = 3
default_role = "code"  # docstrings mark code by single backticks
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
# The build loads none of these:
autodoc_mock_imports = ["torch", "torchvision", "timm", "transformers", "mteb", "sentence_transformers"]
napoleon_google_docstring = True
napoleon_numpy_docstring = False
nitpick_ignore = [("myst", "sparse-and-dense")]  # a folder of logs, of which the site has no page
