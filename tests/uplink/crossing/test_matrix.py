"""What is published in any format on one server reaches the subscribers of every format on another one of the net."""

import pytest

from tests.bus.links.fabric import Fabric
from tests.formats.test_bridge import MATRIX, PAYLOADS, as_sent_by_inbus, fits, publisher, received
from tests.tables import each_row
from tests.uplink.memory_net import uplinked


@pytest.mark.dear
@each_row(("source", "to", "kind"), [row for row in MATRIX if row[2] != "JSON"])
def test_every_format_reaches_every_format(source: str, to: str, kind: str) -> None:
    content_type, payload = PAYLOADS[kind]
    fabric = Fabric("a", "b")
    uplinked(fabric, "a", "b")
    fabric.settle(2)
    publish = publisher(fabric["a"], source)
    fabric.settle(1)

    def across() -> None:
        fabric.settle(1)
        publish(content_type, payload)
        fabric.settle(1)

    got = received(fabric["b"], to, across)
    if fits(to, payload):
        assert got == [as_sent_by_inbus(int(to[-1]), payload) if to.startswith("inbus") else payload]
    else:
        assert got == []
