"""The cost of the codec of MQTT: a PUBLISH read, and a PUBLISH written for a group of subscribers; without sockets.

python bench/mqtt_codec.py --payload 16 --packets 200000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

from bussrv.wire.mqtt.packets import VERSION_3_1_1, VERSION_5, Properties, Publish
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.writer import encode, numbered_publish, publish

CHUNK = 64 << 10
ROUNDS = 5
TOPIC = "home/hall/temperature"


def read(packet: bytes, version: int, packets: int) -> float:
    """The seconds of CPU that one packet takes to be read, of many in chunks as a socket gives them."""
    stream = packet * packets
    reader = MqttReader("client", version)
    count = 0
    started = time.process_time()
    for begin in range(0, len(stream), CHUNK):
        reader.feed(stream[begin : begin + CHUNK])
        while reader.next_event() is not None:
            count += 1
    elapsed = time.process_time() - started
    assert count == packets
    return elapsed / packets


def repeat(call: Callable[[], object], packets: int) -> float:
    """The seconds of CPU of one call."""
    started = time.process_time()
    for _ in range(packets):
        call()
    return (time.process_time() - started) / packets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--payload", type=int, default=16, help="bytes")
    parser.add_argument("--packets", type=int, default=200_000)
    options = parser.parse_args()
    payload, packets = bytes(options.payload), options.packets
    for version, name in ((VERSION_3_1_1, "3.1.1"), (VERSION_5, "5.0")):
        write = partial(publish, TOPIC, payload, version)
        show(f"read PUBLISH, QoS 0, {name}", partial(read, write(), version, packets))
        show(f"write PUBLISH, QoS 0, {name}", partial(repeat, write, packets))
        numbered = Publish(TOPIC, payload, 1, id=7)
        show(f"read PUBLISH, QoS 1, {name}", partial(read, encode(numbered, version), version, packets))
        pieces = partial(numbered_publish(numbered, version).pieces, 7)
        show(f"number PUBLISH, QoS 1, {name}", partial(repeat, pieces, packets))
    write = partial(publish, TOPIC, payload, VERSION_5, properties=Properties(content_type="text/plain"))
    show("read PUBLISH, QoS 0, 5.0, content type", partial(read, write(), VERSION_5, packets))
    show("write PUBLISH, QoS 0, 5.0, content type", partial(repeat, write, packets))


def show(name: str, measure: Callable[[], float]) -> None:
    """Print the least of several measurements."""
    print(f"{min(measure() for _ in range(ROUNDS)) * 1e6:6.2f} us of CPU  {name}", flush=True)


if __name__ == "__main__":
    main()
