"""The Java that Spark would run on. Importing this imports nothing of Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST_JAVA = 17


def why_no_java() -> str | None:
    """Why Spark has no Java to run on, in a sentence without its end; ``None``: it has one."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if java is None:
        where = f"in JAVA_HOME, {home}" if home else "on the path"
        return f"Spark needs Java {OLDEST_JAVA} or newer, and there is none {where}"
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError as error:
        return f"Spark needs Java {OLDEST_JAVA} or newer, and {java} does not start: {error.strerror}"
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = version[1] if version else "something else"
        return f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is {found}"
    return None
