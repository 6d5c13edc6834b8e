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

extensions = ["golden_vectors", "myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_ext"]
# The button copies the commands of a session, not what they print.
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
html_theme = "furo"
# Sphinx opens it from the directory that it was started in.
html_search_scorer = str(Path(__file__).parent / "_ext/search_scorer.js")
html_title = f"bussrv {VERSION}"


def setup(app: Sphinx) -> None:
    """Pygments has no lexer for these."""
    app.add_lexer("haproxy", TextLexer)
