"""A process with a real reactor that tells others of incidents: ``python -m tests.admin.incidents.told``.

It reads a JSON object: what is told by the ``webhook`` (a URL) or the ``command`` (words), with which ``text``, and how
long the ``patience`` is. It writes the outcome: empty if it was told, or else why not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TEXT = '{"address":"\\u001b[31m$(reboot)`id`;\\"\'","id":"a1"}'


def outcome(environment: dict[str, str] | None = None, **request: Any) -> str:
    """What comes of telling it once."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.admin.incidents.told"],
        input=json.dumps({"text": TEXT, "patience": 20.0, **request}).encode(),
        env={**os.environ, **(environment or {})},
        capture_output=True,
        cwd=Path(__file__).parents[3],
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return str(json.loads(done.stdout))


def main() -> None:
    from twisted.internet import reactor

    from bussrv.admin.incidents import command, webhook
    from bussrv.net import posting

    request = json.loads(sys.stdin.buffer.read())
    send: Any
    if "webhook" in request:
        posting.PATIENCE = request["patience"]
        send = webhook.Webhook(request["webhook"], reactor)
    else:
        command.PATIENCE = request["patience"]
        send = command.Command(request["command"], reactor)
    found: list[str] = []

    def tell() -> None:
        done = send(request["text"].encode(), "began")
        done.addCallbacks(lambda _: found.append(""), lambda failure: found.append(failure.getErrorMessage()))
        done.addCallback(lambda _: reactor.stop())  # type: ignore[attr-defined]

    reactor.callWhenRunning(tell)  # type: ignore[attr-defined]
    reactor.run()  # type: ignore[attr-defined]
    sys.stdout.write(json.dumps(found[0]))


if __name__ == "__main__":
    main()
