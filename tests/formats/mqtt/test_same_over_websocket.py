"""MQTT over a WebSocket: the tests of MQTT over TCP, with a WebSocket for each of its connections."""

import pytest

from tests.formats.mqtt.durable.test_sessions import *  # noqa: F403
from tests.formats.mqtt.sockets import use_websockets
from tests.formats.mqtt.test_protocol import *  # noqa: F403
from tests.formats.mqtt.test_retaining import *  # noqa: F403
from tests.size import FULL

if not FULL:
    # They are about how many there are, over whatever.
    del test_thousands_may_want_the_same_id_at_once, test_who_only_comes_and_goes_fills_no_journal  # noqa: F821


@pytest.fixture(autouse=True)
def _every_connection_is_a_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    use_websockets(monkeypatch)
