"""Both ways at once, and servers that say what an uplink may do. A real server, and the broker Tansu, whose limits
:mod:`tests.uplink.kafka.broker` tells."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv.client.aio import connect
from bussrv.client.events import Gap, Message
from bussrv.policy.logins.users import user_line
from tests.forked import ForkedServer
from tests.uplink.kafka.broker import Broker
from tests.uplink.kafka.talk import address, joined, take

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


def test_two_servers_joined_both_ways_make_no_loop(broker: Broker, server: ForkedServer, tmp_path: Path) -> None:
    broker.create("both.tv")
    with (
        ForkedServer(tmp_path / "journal") as cellar,
        joined(server, broker, "both.", "--service", "tv", "--out", "--in") as one,
        joined(cellar, broker, "both.", "--id", "cellar", "--service", "tv", "--out", "--in") as other,
    ):
        for each in (one, other):
            each.wait_for("publications go")
            each.wait_for("are published")

        async def talk() -> None:
            async with (
                connect(address(server)) as here,
                connect(address(cellar)) as there,
                here.subscribe("tv") as heard_here,
                there.subscribe("tv") as heard_there,
            ):
                for number in range(20):
                    await here.publish("tv", b"from hall %d" % number)
                    await there.publish("tv", b"from cellar %d" % number)
                for events in (heard_here, heard_there):
                    # A client hears its own publications, too.
                    assert len({each.payload for each in await take(events, 40) if isinstance(each, Message)}) == 40
                broker.put("both.tv", b"the end")
                for events in (heard_here, heard_there):
                    (last,) = await take(events, 1)
                    assert isinstance(last, Message)
                    assert last.payload == b"the end"

        asyncio.run(talk())
        assert (one.stop(), other.stop()) == (0, 0)
    records = [each.value for each in broker.read("both.tv")]
    assert sorted(records) == sorted(
        [b"the end", *(b"from %s %d" % (place, number) for place in (b"hall", b"cellar") for number in range(20))]
    )


POLICY = """
[[rule]]
users = ["ann"]
watch = ["tv"]
provide = ["tv"]
publish = ["tv"]

[[rule]]
users = ["bob"]
provide = ["*"]
publish = ["*"]
watch = ["*"]
"""


@pytest.fixture
def guarded(tmp_path: Path, cheap_secrets: None) -> Iterator[ForkedServer]:
    """A server that asks who clients are, and says what they may do."""
    (tmp_path / "policy.toml").write_text(POLICY)
    lines = [user_line(user, f"secret of {user}".encode()) for user in ("ann", "bob")]
    (tmp_path / "users").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "users").chmod(0o600)
    for name, text in (("ann", "secret of ann\n"), ("wrong", "another\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    options = ["--auth", f"users:{tmp_path}/users", "--policy", f"{tmp_path}/policy.toml"]
    with ForkedServer(tmp_path / "journal", options) as found:
        yield found


def test_what_the_policy_denies_is_refused_and_counted(guarded: ForkedServer, broker: Broker, tmp_path: Path) -> None:
    for topic in ("policy.tv", "policy.radio"):
        broker.create(topic)
    login = ("--bus-user", "ann", "--bus-secret-file", str(tmp_path / "ann"))
    services = ("--service", "tv", "--service", "radio", "--in")
    with joined(guarded, broker, "policy.", *services, *login) as uplink:
        uplink.wait_for("are published")

        async def receive() -> list[Message | Gap]:
            secret = {"user": "bob", "secret": "secret of bob"}
            async with connect(address(guarded), **secret) as bus, bus.subscribe("tv", "radio") as events:
                broker.put("policy.radio", b"denied")
                uplink.wait_for("not-allowed")
                broker.put("policy.tv", b"allowed")
                return await take(events, 1)

        (message,) = asyncio.run(receive())
        assert message == Message("tv", b"allowed", "application/octet-stream", message.raw)
        assert uplink.stop() == 0
    assert "in published 1, in skipped 0, in refused 1" in uplink.wait_for("stopped")


@pytest.mark.parametrize(
    ("service", "user", "secret", "sentence"),
    [
        ("radio", "ann", "ann", "not-allowed"),
        pytest.param("tv", "ann", "wrong", "the server does not take the uplink: ", marks=pytest.mark.long),
    ],
)
def test_an_uplink_that_may_not_subscribe_ends(
    guarded: ForkedServer, broker: Broker, tmp_path: Path, service: str, user: str, secret: str, sentence: str
) -> None:
    login = ("--bus-user", user, "--bus-secret-file", str(tmp_path / secret))
    with joined(guarded, broker, "denied.", "--service", service, "--out", *login) as uplink:
        assert uplink.wait() != 0
        assert sentence in uplink.lines[-1]
