"""Object System over a WebSocket: the tests of the stream format, with a WebSocket for each of its connections."""

import pytest

from tests.conformance.test_addressing import *  # noqa: F403
from tests.conformance.test_bridge import *  # noqa: F403
from tests.conformance.test_framing import *  # noqa: F403
from tests.conformance.test_named_services import *  # noqa: F403
from tests.conformance.test_objects import *  # noqa: F403
from tests.conformance.test_services import *  # noqa: F403
from tests.formats.websocket.browser import use_websockets


@pytest.fixture(autouse=True)
def _every_connection_is_a_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    use_websockets(monkeypatch)
