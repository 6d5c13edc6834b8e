"""``why`` against a tap: a server with a policy, clients of all formats that come and go, a linked server with members,
and what each tapped object was given to. ``make test-full`` does that for about a minute.

In each round some clients come or go, and then each of some sends something. The tap says how many others were given
it, and shows nothing that was refused. The members of the linked server say what they were given. Afterwards ``why`` is
asked of each, at the time that the tap says.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bussrv.client import blocking, inbus
from bussrv.client.business import BusinessClient
from bussrv.client.inbus import InbusSubscriber
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.journal.moments import parse_moment
from bussrv.testing.server import RunningServer
from bussrv.values import OCTET_STREAM, UTF8_TEXT
from bussrv.why.answer import Answer, Verdict, answer
from bussrv.why.past import past_of
from bussrv.why.question import Question
from bussrv.wire import spp
from examples.demo.clients import MqttClient
from tests.admin.test_tap import Stream
from tests.docs.devices import wait_until_subscribed
from tests.forked import ForkedServer
from tests.size import sized

ROUNDS = sized(480, 30)
SEED = 41
MOST_CLIENTS = 14
SENDS = 2
NAMES = ("tv", "hall/light")
POLICY = """
[[rule]]
networks = "127.0.0.0/8"
formats = ["objects", "websocket", "business"]
provide = "*"
publish = ["!hall/*", "*"]
send = ["!text/html", "!@secret", "*"]
request = "*"
address = "*"
watch = "*"
observe = ["!image/gif", "!@door/*", "*"]
link = ["hall", "attic"]
tell = "*"
[[rule]]
formats = ["inbus", "mqtt"]
publish = "*"
watch = ["!hall/*", "*"]
[[rule]]
formats = "spp"
watch = "*"
[[rule]]
formats = "websocket"
send = "@secret"
publish = "hall/*"
[[rule]]
formats = "admin"
observe = "*"
watch = "*"
admin = "read"
"""
INTERESTS: tuple[dict[str, Any], ...] = (
    {},
    {"receive_mode": "no_echo"},
    {"receive_mode": "events_only"},
    {"types": ["text/*", "image/?n*"]},
    {"types": "none"},
    {"subscriptions": ["@services/*", "@pong", "*", "!image/*"]},
    {"subscriptions": ["@pong", "@door*", ["!text/html", "text/*"]]},
)
OBJECTS: tuple[dict[str, Any], ...] = (
    {"type": "text/plain"},
    {"type": "text/html"},
    {"type": "image/png"},
    {"type": "image/gif", "sender": "tv"},
    {"type": "text/plain", "sender": "hall/light"},
    {"type": "text/plain", "event": "door/opened"},
    {"type": "text/plain", "event": "secret"},
    {"type": "text/plain", "to": "first"},
    {"type": "text/plain", "to": ["first", "second", "nobody"]},
    {"type": "text/plain", "event": "services/request", "name": "tv"},
)


@dataclass
class Client:
    """A client that is connected.

    :ivar send: sends an object with these attributes and a payload, and returns when the server has taken it;
        ``None``: this one sends nothing.
    :ivar publish: publishes a payload on ``tv``, likewise.
    :ivar session: what its session is called.
    """

    kind: str
    close: Callable[[], object]
    send: Callable[[dict[str, Any], bytes], object] | None = None
    publish: Callable[[bytes], object] | None = None
    session: str | None = None


@dataclass
class Sent:
    """What was sent: by whom, and what is asked about it."""

    kind: str
    question: Question
    sender: str | None


class Crowd:
    """Clients of one server, and what they have sent."""

    def __init__(self, server: RunningServer, random: Random) -> None:
        self._server = server
        self._random = random
        self._number = 0
        self.clients: list[Client] = []
        self.sent: dict[bytes, Sent] = {}

    def change(self) -> None:
        """A client comes, or one goes."""
        if len(self.clients) >= MOST_CLIENTS or (self.clients and self._random.random() < 0.4):
            gone = self.clients.pop(self._random.randrange(len(self.clients)))
            before = self._sessions()
            gone.close()
            while self._sessions() >= before:
                pass
            return
        kinds = [self._member, self._desk, self._page, self._screen, self._device]
        if all(each.kind != "mqtt" for each in self.clients):
            kinds.append(self._phone)
        self.clients.append(self._random.choice(kinds)())

    def _sessions(self) -> int:
        where = "http://{}:{}/api/v1/sessions".format(*self._server.addresses["admin"])
        with urllib.request.urlopen(where, timeout=20) as found:
            return len(json.load(found)["items"])

    def _member(self) -> Client:
        client = ObjectsClient(port=self._server.port("objects"))
        ids = self._random.choice((["first"], ["second"], []))
        client.subscribe(routing_ids=ids, **self._random.choice(INTERESTS))
        if self._random.random() < 0.3:
            client.register("tv")

        def send(fields: dict[str, Any], payload: bytes) -> None:
            client.send(fields, payload)
            client.ping()

        return Client("objects", client.close, send, session=client.routing_id)

    def _desk(self) -> Client:
        client = BusinessClient(port=self._server.port("business"))
        client.register(**self._random.choice(({}, {"receive": "no_echo"}, {"subscribe": ["text/*"]})))

        def send(fields: dict[str, Any], payload: bytes) -> None:
            client.send(fields, payload)
            client.services()

        return Client("business", client.close, send, session=client.routing_id)

    def _page(self) -> Client:
        stack = ExitStack()
        bus = stack.enter_context(blocking.connect(f"ws://127.0.0.1:{self._server.port('websocket')}"))
        stack.enter_context(bus.subscribe(self._random.choice(NAMES)))

        def send(fields: dict[str, Any], payload: bytes) -> None:
            bus.run(lambda each: each.send(fields, payload))
            bus.run(lambda each: each.flush())

        return Client("websocket", stack.close, send, session=bus.routing_id)

    def _screen(self) -> Client:
        client = SppClient(port=self._server.port("spp"))
        client.wait_for(lambda event: event == spp.Offer("tv"))
        client.subscribe("tv")
        client.wait_for(lambda event: isinstance(event, spp.Info))
        return Client("spp", client.close)

    def _device(self) -> Client:
        udp = self._server.addresses["inbus"]
        device = InbusSubscriber("tv", udp)
        wait_until_subscribed("tv", udp, device)
        return Client("inbus", device.close)

    def _phone(self) -> Client:
        stack = ExitStack()
        phone = stack.enter_context(MqttClient(self._server.port("mqtt")))
        phone.subscribe(self._random.choice(("tv", "#", "hall/+")))
        phone.publish("tv", b"first")
        return Client("mqtt", stack.close, publish=lambda payload: phone.publish("tv", payload), session="phone")

    def send(self, stream: Iterator[tuple[str, Any]]) -> list[dict[str, Any]]:
        """Clients send something a few times each, and a device publishes. :returns: what the tap shows of it."""
        shown: list[dict[str, Any]] = []
        for client in SENDS * self.clients:
            payload = self._next_payload()
            if client.send is not None:
                fields = {**self._random.choice(OBJECTS), "id": payload.decode()}
                asked = Question(fields=fields, size=len(payload), sender=client.session)
                self.sent[payload] = Sent(client.kind, asked, client.session)
                client.send(fields, payload)
            elif client.publish is not None:
                asked = Question(service="tv", content_type=OCTET_STREAM, size=len(payload), sender=client.session)
                self.sent[payload] = Sent(client.kind, asked, client.session)
                client.publish(payload)
        # It comes last, and is not refused.
        payload = self._next_payload()
        inbus.publish("tv", payload, server=self._server.addresses["inbus"])
        while not shown or payload_of(shown[-1]) != payload:
            name, found = next(stream)
            assert name == "object", found
            shown.append(found)
        session = shown[-1]["from"]["session"]
        asked = Question(service="tv", content_type=UTF8_TEXT, size=len(payload), sender=session)
        self.sent[payload] = Sent("inbus", asked, session)
        return shown

    def _next_payload(self) -> bytes:
        self._number += 1
        return b"payload %d" % self._number


class Far:
    """Members of a server that is linked with it, one of which is given texts only, and what they were given."""

    def __init__(self, server: RunningServer, stack: ExitStack) -> None:
        self._members = [stack.enter_context(ObjectsClient(port=server.port("objects"))) for _ in range(2)]
        for each, interest in zip(self._members, ({}, {"types": ["text/*"]}), strict=True):
            each.subscribe(**interest)
        self.given: dict[str, set[bytes]] = {str(each.routing_id): set() for each in self._members}

    def take(self, last: bytes) -> None:
        """Take what they are given, up to a payload that all of them are given."""
        for each in self._members:
            payload = b""
            while payload != last:
                payload = each.receive(timeout=20).payload
                self.given[str(each.routing_id)].add(payload)


def payload_of(shown: dict[str, Any]) -> bytes:
    return b64decode(shown["payload"])


def others(found: Answer, sender: str) -> list[Verdict]:
    """The verdicts about those whom a tap counts: the sender only if it has its own publication, or asks itself."""
    here = [each for each in found.sessions if each.server == "hall"]
    return [each for each in here if each.session != sender or each.reason in ("subscribed", "provider")]


@pytest.mark.processes
def test_why_says_of_a_live_server_what_its_tap_showed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, journal = tmp_path / "policy.toml", tmp_path / "journal"
    policy.write_text(POLICY)
    policy.chmod(0o600)
    options = ["--server-id", "hall", "--policy", str(policy), "--mqtt", "0", "--websocket", "0"]
    rounds: list[tuple[dict[bytes, Sent], dict[bytes, dict[str, Any]]]] = []
    with ForkedServer(journal, [*options, "--subscribe-timeout", "600"]) as server, ExitStack() as stack:
        inbus.publish("tv", b"first", server=server.addresses["inbus"])
        dialed = ["--server-id", "attic", "--link", f"tcp:127.0.0.1:{server.port('objects')}"]
        attic = stack.enter_context(ForkedServer(tmp_path / "attic", dialed))
        while "link to hall" not in attic.next_line():
            pass
        far = Far(attic, stack)
        with Stream(server, "?payload=1&rate=1000") as tapped:
            crowd = Crowd(server, Random(SEED))
            stack.callback(lambda: [each.close() for each in crowd.clients])
            stream = tapped.events()
            for _ in range(ROUNDS):
                for _ in range(3):
                    crowd.change()
                shown = {payload_of(each): each for each in crowd.send(stream) if payload_of(each) != b"first"}
                far.take([*shown][-1])
                rounds.append((crowd.sent, shown))
                crowd.sent = {}
    answers: Counter[str] = Counter()
    crossed: Counter[str] = Counter()
    for sent, shown in rounds:
        # Nobody comes or goes while a round is sent.
        moment = parse_moment(list(shown.values())[-1]["time"])
        pasts = [past_of(each, moment) for each in (journal, tmp_path / "attic")]
        for payload, each in sent.items():
            found = answer(pasts, each.question)
            given = shown.get(payload)
            if found.sender.refused is not None:
                assert given is None, (each, given)
                answers[f"{each.kind}: refused"] += 1
                continue
            assert given is not None, each
            said = Counter(verdict.answer for verdict in others(found, given["from"]["session"]))
            forwarded = sum(link.server == "hall" and link.is_forwarded for link in found.links)
            # Of a request, a link counts only if somebody there may answer; of what is addressed, if somebody is known.
            is_for_all = given["event"] != "services/request" and "to" not in given["metadata"]
            least = said["yes"] + (forwarded if is_for_all else 0)
            assert least <= given["to_count"] <= said["yes"] + forwarded + said["unknown"], (each, given, found)
            there = {each.routing_id: each.answer for each in found.sessions if each.server == "attic"}
            assert there.keys() == far.given.keys()
            # Whose turn it was to be asked, no journal says.
            wrong = {name for name, got in far.given.items() if there[name] == ("no" if payload in got else "yes")}
            assert not wrong, (each, found)
            crossed.update(there.values())
            answers[f"{each.kind}: {'in turn' if said['unknown'] else 'as said'}"] += 1
    kinds = {each.partition(":")[0] for each in answers}
    assert kinds >= {"business", "inbus", "objects", "websocket"}
    assert crossed.keys() >= {"yes", "no"}
    with capsys.disabled():
        agreed = f"{sum(answers.values())} objects, and {crossed.total()} answers about the linked server, agree"
        sys.stdout.write(f"\n{agreed}: {dict(sorted(answers.items()))}\n")
