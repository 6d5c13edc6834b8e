"""What is held for all sessions, held against a model that counts everything anew each time."""

from collections import Counter, deque
from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bussrv.memory.limits import CHUNK_COST, HOLD_COST, Chunk, HeldMemory, MemoryLimit
from tests.size import sized

MOST = 5000
SIZES = (10, 500, 1500, 3000)
ADDRESSES = ("a", "b", "c")


class Later:
    """Does work when it is told to."""

    def __init__(self) -> None:
        self.waiting: deque[Iterator[None]] = deque()
        self.do = self.waiting.append

    def do_all(self) -> None:
        while self.waiting:
            deque(self.waiting.popleft(), 0)


def let_go(chunks: list[Chunk]) -> Iterator[None]:
    while chunks:
        chunks.pop()
        yield


class HoldingsMachine(RuleBasedStateMachine):
    """Sessions of three addresses wait for chunks of four sizes. Those of a size share a chunk, while one waits."""

    def __init__(self) -> None:
        super().__init__()
        self.later = Later()
        self.holdings = MemoryLimit(MOST, self.later.do)
        self.held: dict[HeldMemory, list[Chunk]] = {}
        self.oldest: list[HeldMemory] = []

    @rule(address=st.sampled_from(ADDRESSES))
    def open(self, address: str) -> None:
        holding = self.holdings.open(address, lambda: self.gives_up(holding))
        self.held[holding] = []

    def gives_up(self, holding: HeldMemory) -> None:
        assert self.total() > MOST
        sizes = Counter[str]()
        for each in self.oldest:
            sizes[each.address] += self.size(each)
        assert sizes[holding.address] == max(sizes.values())
        assert holding == next(each for each in self.oldest if each.address == holding.address)
        self.oldest.remove(holding)
        holding.release_all(let_go(self.held.pop(holding)))

    @precondition(lambda self: self.held)
    @rule(size=st.sampled_from(SIZES), data=st.data())
    def hold(self, size: int, data: st.DataObject) -> None:
        holding = list(self.held)[data.draw(st.integers(0, len(self.held) - 1))]
        chunk = next((each for each in self.waited_for() if len(each.data) == size), None) or Chunk(bytes(size))
        self.held[holding].append(chunk)
        if holding not in self.oldest:
            self.oldest.append(holding)
        holding.hold(chunk)

    @precondition(lambda self: self.oldest)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        holding = self.oldest.pop(data.draw(st.integers(0, len(self.oldest) - 1)))
        holding.release(self.held[holding].pop(0))
        if self.held[holding]:
            self.oldest.append(holding)

    @precondition(lambda self: self.oldest)
    @rule(data=st.data())
    def release_all(self, data: st.DataObject) -> None:
        holding = self.oldest.pop(data.draw(st.integers(0, len(self.oldest) - 1)))
        chunks, self.held[holding] = self.held[holding], []
        holding.release_all(let_go(chunks))

    def waited_for(self) -> list[Chunk]:
        return list({id(chunk): chunk for chunks in self.held.values() for chunk in chunks}.values())

    def size(self, holding: HeldMemory) -> int:
        return sum(len(chunk.data) + HOLD_COST for chunk in self.held[holding])

    def total(self) -> int:
        held = HOLD_COST * sum(map(len, self.held.values()))
        return held + sum(len(chunk.data) + CHUNK_COST for chunk in self.waited_for())

    @invariant()
    def every_byte_is_counted_once(self) -> None:
        self.later.do_all()
        assert self.holdings.total == self.total()
        assert self.holdings.total <= MOST
        assert all(holding.size == self.size(holding) for holding in self.held)

    @invariant()
    def nothing_is_remembered_of_those_who_hold_nothing(self) -> None:
        remembered = {holding for holders in self.holdings._by_address.values() for holding in holders}
        assert remembered == set(self.oldest) == {holding for holding, chunks in self.held.items() if chunks}
        assert set(self.holdings._by_address) == set(self.holdings._sizes)


TestHoldings = HoldingsMachine.TestCase
TestHoldings.settings = settings(max_examples=sized(60), stateful_step_count=40)


def test_what_is_held_counts_as_it_grows_and_the_first_gives_up() -> None:
    later = Later()
    holdings = MemoryLimit(100, later.do)
    gave_up: list[str] = []

    def hold(name: str, address: str) -> HeldMemory:
        def give_up() -> None:
            gave_up.append(name)
            holding.resize(0)

        holding = holdings.open(address, give_up)
        return holding

    other, first, second = hold("other", "b"), hold("first", "a"), hold("second", "a")
    for holding, size in ((other, 40), (second, 10), (second, 0), (first, 20), (second, 20), (first, 30)):
        holding.resize(size)
        later.do_all()
    assert (holdings.total, gave_up) == (90, [])
    second.resize(31)
    later.do_all()
    assert (holdings.total, gave_up) == (71, ["first"])


def test_giving_up_frees_in_slices_and_nobody_else_gives_up() -> None:
    """A thousand sessions may give up ten thousand chunks each in one turn of the reactor."""
    later = Later()
    holdings = MemoryLimit(5000, later.do)
    waiting: dict[str, list[Chunk]] = {}

    def session(name: str, size: int) -> None:
        holding = holdings.open(name, lambda: holding.release_all(let_go(waiting[name])))
        waiting[name] = [Chunk(bytes(size)) for _ in range(4)]
        for chunk in waiting[name]:
            holding.hold(chunk)
        del chunk

    session("large", 800)
    session("small", 100)
    (relief,) = later.waiting
    next(relief)
    assert (holdings.total > 5000, len(waiting["large"])) == (True, 4)
    next(relief)
    assert len(waiting["large"]) == 3
    deque(relief, 0)
    assert [len(chunks) for chunks in waiting.values()] == [0, 4]
    assert holdings.total == 4 * (100 + CHUNK_COST + HOLD_COST)
