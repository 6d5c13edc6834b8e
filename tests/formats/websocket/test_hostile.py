"""What is hostile to the stream formats, over WebSockets; and what is hostile to WebSocket itself."""

import pytest

from tests.formats.objects.hostile.cases import rows_for
from tests.formats.objects.hostile.rows import OBJECTS
from tests.formats.objects.hostile.test_outcomes import expect_outcome
from tests.formats.websocket.browser import use_websockets
from tests.size import sample
from tests.tables import check_each

pytestmark = pytest.mark.usefixtures("quick_collections", "no_log", "websockets")


@pytest.fixture
def websockets(monkeypatch: pytest.MonkeyPatch) -> None:
    use_websockets(monkeypatch)


def test_the_outcome_is_that_of_the_stream_and_nobody_notices() -> None:
    rows = sample([(row.name, row) for row in rows_for(OBJECTS)], 12)
    check_each(rows, lambda row: expect_outcome(OBJECTS, row))
