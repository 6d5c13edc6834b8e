"""How the documentation is built: ``make docs``."""

from bussrv.version import VERSION

project = "bussrv"
author = "the bussrv authors"
version = release = VERSION

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
# The table of contents names pages that are still to be written.
suppress_warnings = ["toc.not_readable"]

html_theme = "furo"
html_title = f"bussrv {VERSION}"
