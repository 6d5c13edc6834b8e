"""One client of a history: its end of a connection to the server, and what the reference has of it."""

from __future__ import annotations

from tests.equality.arena import Pipe
from tests.equality.clients import Client
from tests.equality.judging import Ids, comparable, is_coalesced
from tests.equality.linked import passed_on
from tests.equality.words import everything, first_object, from_server

MOST_IN_A_TURN = 2000
"""After how many bytes for one client a turn ends, so that clients that read are never behind."""


class Peer:
    """One client, on both sides.

    :ivar outbox: what it has still to send: by the ids of the reference, and by those of the server.
    :ivar stalled: whether it does not read.
    :ivar behind: whether it has not read everything of the turns before this one.
    :ivar lost: whether its connection ended before it was given everything.
    :ivar frames: what it received.
    :ivar judged: how many of the reference's frames were compared.
    """

    def __init__(self, client: Client, pipe: Pipe, coalesces: bool) -> None:
        self.client = client
        self.pipe = pipe
        self.coalesces = coalesces
        self.outbox = (b"", b"")
        self.stalled = self.behind = self.lost = False
        self.frames: list[bytes] = []
        self.judged = 0
        self.bytes_in = 0
        self._seen = 0
        self._rest = b""

    @property
    def kind(self) -> str:
        return self.client.kind

    @property
    def is_member(self) -> bool:
        """Whether it speaks Object System or Business Object, as a client does."""
        return self.kind in ("objects", "business")

    @property
    def talks(self) -> bool:
        return self.pipe.connected and not self.client.ended and not self.client.input_ended

    def may_talk(self, journal_is_slow: bool) -> bool:
        """Whether it may say something more.

        Who is behind is not to reach the cap by its own words: whether the rest of them still counts depends on when
        the server notices.
        """
        is_behind = self.stalled or self.behind
        return self.talks and not (is_behind and (journal_is_slow or self.unread > MOST_IN_A_TURN // 2))

    @property
    def may_stall(self) -> bool:
        return self.pipe.connected and not self.stalled and not self.client.busy and self.kind != "server"

    @property
    def unread(self) -> int:
        return sum(map(len, self.client.session.got[self.judged :]))

    def receive(self) -> None:
        new = self.pipe.delivered[self._seen :]
        self._seen += len(new)
        frames, self._rest = everything(from_server if self.kind == "spp" else first_object, self._rest + new)
        self.frames += filter(passed_on, frames) if self.kind == "server" else frames

    def judge(self, ids: Ids) -> None:
        """Compare what was received since the last time; what is not compared yet may be on its way."""
        self.receive()
        if self.coalesces:
            self._judge_coalesced()
            return
        expected = self.client.session.got
        while self.judged < len(self.frames):
            assert self.judged < len(expected), ("more than it should", self.frames[self.judged])
            real, model = self.frames[self.judged], expected[self.judged]
            if self.kind != "spp":
                real, model = comparable(real), comparable(model)
            assert ids.same(real, model), (real, ids.as_real(model))
            self.judged += 1
        if not self.stalled and not self.lost:
            assert self._rest == b""
            assert self.judged == len(expected), ("missing", expected[self.judged])

    def _judge_coalesced(self) -> None:
        expected = self.client.session.got
        if self.stalled or self.lost:
            return
        states = {each: found.service for each in expected if (found := from_server(each)[0]) and found.name == "info"}
        assert self._rest == b""
        assert is_coalesced(self.frames, expected[self.judged :], states), (self.frames, expected[self.judged :])
        self.frames = []
        self.judged = len(expected)
