"""Messages wait in turn, are tried again, are not too many, and never more than wait."""

from __future__ import annotations

import json
from collections import Counter

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from bussrv.admin.incidents.known import Known
from bussrv.admin.incidents.outbox import A_MINUTE, MOST_WAITING, PAUSES, WEBHOOK, NotSent, Outbox, message
from bussrv.incidents.judging import GRAVE, MINOR, Incident


class Scene:
    """An outbox, and what was sent through it and when."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.counters: Counter[str] = Counter()
        self.sent: list[tuple[float, bytes]] = []
        self.answers: list[Deferred[None]] = []
        self.outbox = Outbox(WEBHOOK, self.clock, self.counters)
        self.outbox.use(self.send)

    def send(self, text: bytes, event: str) -> Deferred[None]:
        self.sent.append((self.clock.seconds(), text))
        return self.answers.pop(0) if self.answers else succeed(None)

    def put(self, *texts: bytes) -> None:
        for each in texts:
            self.outbox.put(each, "began")

    def pump(self, seconds: float) -> None:
        self.clock.pump([0.5] * int(seconds * 2))


def test_what_fails_is_tried_again_with_growing_pauses() -> None:
    scene = Scene()
    scene.answers = [fail(NotSent("503")) for _ in range(len(PAUSES))]
    scene.put(b"a", b"b")
    scene.pump(200)
    times = [0.0]
    for pause in PAUSES:
        times.append(times[-1] + pause)
    assert scene.sent == [*((at, b"a") for at in times), (times[-1], b"b")]
    assert scene.counters == {"incident-webhook-failed": len(PAUSES), "incident-webhook-sent": 2}


def test_what_always_fails_is_dropped() -> None:
    scene = Scene()
    scene.answers = [fail(ValueError("a bug")) for _ in range(len(PAUSES) + 1)]
    scene.put(b"a", b"b")
    scene.pump(200)
    assert [text for _, text in scene.sent] == [b"a"] * (len(PAUSES) + 1) + [b"b"]
    assert scene.counters["incident-webhook-failed"] == len(PAUSES) + 1


def test_only_so_many_are_sent_in_a_minute() -> None:
    scene = Scene()
    scene.put(*(b"%d" % number for number in range(2 * A_MINUTE + 1)))
    scene.pump(130)
    assert [at for at, _ in scene.sent] == [0.0] * A_MINUTE + [60.0] * A_MINUTE + [120.0]


def test_only_so_many_wait() -> None:
    """The receiver does not answer. The oldest messages are dropped."""
    scene = Scene()
    scene.answers = [answer := Deferred()]
    scene.put(*(b"%d" % number for number in range(MOST_WAITING + 4)))
    assert scene.counters == {"incident-webhook-dropped": 3}
    answer.callback(None)
    scene.pump(400)
    assert [text for _, text in scene.sent] == [b"0", *(b"%d" % number for number in range(4, MOST_WAITING + 4))]


def test_a_storm_of_light_ones_does_not_drop_a_grave_one() -> None:
    scene = Scene()
    scene.answers = [answer := Deferred()]
    scene.outbox.put(b"on its way", "began", MINOR)
    scene.outbox.put(b"grave", "began", GRAVE)
    for number in range(3 * MOST_WAITING):
        scene.outbox.put(b"%d" % number, "began", MINOR)
    answer.callback(None)
    scene.pump(400)
    sent = [text for _, text in scene.sent]
    assert (sent[:2], len(sent), sent[-1]) == ([b"on its way", b"grave"], MOST_WAITING + 1, b"%d" % (number))


def test_nothing_is_sent_after_the_end() -> None:
    scene = Scene()
    scene.answers = [fail(NotSent("503"))]
    scene.put(b"a", b"b")
    scene.outbox.stop()
    scene.put(b"c")
    scene.pump(300)
    assert [text for _, text in scene.sent] == [b"a"]
    assert not scene.clock.getDelayedCalls()


def test_another_receiver_gets_what_waits_and_at_once() -> None:
    """The first one hangs, or fails and is paused for: neither holds the new one up."""
    for first in (Deferred(), fail(NotSent("503"))):
        scene = Scene()
        scene.answers = [first]
        scene.put(b"a", b"b")
        found: list[bytes] = []
        scene.outbox.use(lambda text, event, found=found: succeed(found.append(text)))
        scene.put(b"c")
        assert ([text for _, text in scene.sent], found) == ([b"a"], [b"a", b"b", b"c"])
        assert (scene.counters["incident-webhook-sent"], scene.clock.getDelayedCalls()) == (3, [])


def test_without_a_receiver_nothing_is_kept() -> None:
    scene = Scene()
    scene.answers = [Deferred()]
    scene.put(b"a", b"b")
    scene.outbox.use(None)
    scene.put(b"c")
    assert scene.counters == {"incident-webhook-dropped": 2}
    scene.outbox.use(scene.send)
    scene.put(b"d")
    assert [text for _, text in scene.sent] == [b"a", b"d"]


def test_a_message_has_no_character_that_a_terminal_obeys() -> None:
    names = 'a\x1b]0;x\x07\u202e\n"$(id)'
    text = message(Known("a1", Incident(what="guessing", number=12, others=3, claimed=names, begin=1)), "began")
    assert text.isascii()
    assert text.decode().isprintable()
    found = json.loads(text)
    assert (found["event"], found["claimed"], found["what"]) == ("began", names, "12 failed logins from 3 addresses")
