"""What tests of the commands that ask and steer a running server have in common."""

from __future__ import annotations

import json
from pathlib import Path

from bussrv.client.objects import ObjectsClient
from tests.cli.conftest import Place, run


def token(place: Place) -> Path:
    return place.home / "journal.admin-token"


def records(*words: object) -> list[dict[str, object]]:
    status, said, complained = run(*words, "--json")
    assert (status, complained) == (0, "")
    return [json.loads(line) for line in said.splitlines()]


def session_of(client: ObjectsClient) -> str:
    (found,) = records("sessions", "--where", f"routing_id={client.routing_id}")
    return str(found["session"])
