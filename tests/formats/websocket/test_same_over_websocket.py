"""Object System over a WebSocket: the tests of the stream format, with a WebSocket for each of its connections.

What all formats promise, the kit tries over WebSockets each time.
"""

import pytest

from tests.formats.objects.test_addressing import *  # noqa: F403
from tests.formats.objects.test_framing import *  # noqa: F403
from tests.formats.objects.test_membership import *  # noqa: F403
from tests.formats.objects.test_named_services import *  # noqa: F403
from tests.formats.objects.test_services import *  # noqa: F403
from tests.formats.test_publications import *  # noqa: F403
from tests.formats.websocket.browser import use_websockets

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _every_connection_is_a_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    use_websockets(monkeypatch)
