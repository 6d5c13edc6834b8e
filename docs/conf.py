"""How the documentation is built: ``make docs``."""

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from bussrv.version import VERSION

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "bussrv"
author = "the bussrv authors"
version = release = VERSION

extensions = ["golden_vectors", "myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_ext"]
html_theme = "furo"
html_title = f"bussrv {VERSION}"


def setup(app: Sphinx) -> None:
    """Pygments has no lexer for these."""
    app.add_lexer("haproxy", TextLexer)
