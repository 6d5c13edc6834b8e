"""How much memory a server takes."""

import re
from pathlib import Path

from bussrv.testing.server import RunningServer


def resident(server: RunningServer) -> int:
    """The bytes of resident memory of the server."""
    status = Path(f"/proc/{server.process.pid}/status").read_text("utf-8")
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10
