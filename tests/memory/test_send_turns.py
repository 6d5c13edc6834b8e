"""Who is sent to when: everybody in turn, and so much in a reactor turn."""

from twisted.internet.task import Clock

from bussrv.memory.send_turns import A_TURN, LEAST, PIECE, SendTurns

PIECES_A_TURN = A_TURN // PIECE


class Waiting:
    """A session for which so many pieces wait."""

    def __init__(self, name: str, pieces: int, sent: list[str], size: int = PIECE) -> None:
        self._name = name
        self._pieces = pieces
        self._sent = sent
        self._size = size

    @property
    def wants_turn(self) -> bool:
        return self._pieces > 0

    def send_piece(self) -> int:
        self._sent.append(self._name)
        self._pieces -= 1
        return self._size


class Turns(Clock):
    """A reactor that takes one turn at a time."""

    def turn(self) -> None:
        due, self.calls = self.calls, []
        for call in due:
            call.called = 1
            call.func(*call.args, **call.kw)


def test_the_first_piece_goes_at_once_and_the_others_in_turn() -> None:
    reactor, sent = Turns(), list[str]()
    outflow = SendTurns(reactor)
    for name, pieces in (("a", 3), ("b", 2), ("c", 1)):
        outflow.serve(Waiting(name, pieces, sent))
    assert (sent, outflow.is_busy) == (["a"], True)
    reactor.turn()
    assert (sent, outflow.is_busy) == (["a", *"abc", *"ab"], False)


def test_a_turn_sends_so_many_pieces_and_no_more() -> None:
    reactor, sent = Turns(), list[str]()
    outflow = SendTurns(reactor)
    names = [str(number) for number in range(PIECES_A_TURN + 10)]
    for name in names:
        outflow.serve(Waiting(name, 1, sent))
    assert sent == names[:PIECES_A_TURN]
    reactor.turn()
    assert (sent, outflow.is_busy) == (names, False)
    outflow.serve(Waiting("large", 2 * PIECES_A_TURN, sent))
    counts = []
    while outflow.is_busy:
        before = len(sent)
        reactor.turn()
        counts.append(len(sent) - before)
    assert max(counts) == PIECES_A_TURN
    for name in range(1000):
        outflow.serve(Waiting(str(name), 1, sent, size=1))
    assert len(sent) - before <= 2 * A_TURN // LEAST


def test_a_round_of_nobody_ends_with_the_turn() -> None:
    reactor = Turns()
    ended = SendTurns(reactor).round()
    assert not ended.called
    reactor.turn()
    assert ended.called


def test_a_round_ends_when_all_who_waited_had_their_turn() -> None:
    reactor, sent = Turns(), list[str]()
    outflow = SendTurns(reactor)
    for name in "abc":
        outflow.serve(Waiting(name, 2 * PIECES_A_TURN, sent))
    before: list[str] = []
    outflow.round().addCallback(lambda _: before.extend(sent))
    outflow.serve(Waiting("late", 1, sent))
    reactor.turn()
    assert before == ["a", *"abc"]
    assert sent[4:6] == ["late", "a"]
