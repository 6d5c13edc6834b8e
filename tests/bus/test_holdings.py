"""What is held for all sessions, held against a model that counts everything anew each time."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bussrv.bus.holdings import CHUNK_COST, HOLD_COST, Holding, Holdings
from tests.size import sized

MOST = 5000
CHUNKS = [bytes([number]) * size for number, size in enumerate((10, 500, 1500, 3000))]
ADDRESSES = ("a", "b", "c")


class HoldingsMachine(RuleBasedStateMachine):
    """Sessions of three addresses wait for four chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.holdings = Holdings(MOST)
        self.held: dict[Holding, list[bytes]] = {}
        self.oldest: list[Holding] = []

    @rule(address=st.sampled_from(ADDRESSES))
    def open(self, address: str) -> None:
        holding = self.holdings.open(address, lambda: self.gives_up(holding))
        self.held[holding] = []

    def gives_up(self, holding: Holding) -> None:
        assert self.total() > MOST
        sizes = Counter[str]()
        for each in self.oldest:
            sizes[each.address] += self.size(each)
        assert sizes[holding.address] == max(sizes.values())
        assert holding == next(each for each in self.oldest if each.address == holding.address)
        self.oldest.remove(holding)
        for chunk in self.held.pop(holding):
            holding.release(chunk)

    @precondition(lambda self: self.held)
    @rule(chunk=st.integers(0, len(CHUNKS) - 1), data=st.data())
    def hold(self, chunk: int, data: st.DataObject) -> None:
        holding = list(self.held)[data.draw(st.integers(0, len(self.held) - 1))]
        self.held[holding].append(CHUNKS[chunk])
        if holding not in self.oldest:
            self.oldest.append(holding)
        holding.hold(CHUNKS[chunk])

    @precondition(lambda self: self.oldest)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        holding = self.oldest.pop(data.draw(st.integers(0, len(self.oldest) - 1)))
        holding.release(self.held[holding].pop(0))
        if self.held[holding]:
            self.oldest.append(holding)

    def size(self, holding: Holding) -> int:
        return sum(len(chunk) + HOLD_COST for chunk in self.held[holding])

    def total(self) -> int:
        each = {chunk for chunks in self.held.values() for chunk in chunks}
        return sum(len(chunk) + CHUNK_COST for chunk in each) + HOLD_COST * sum(map(len, self.held.values()))

    @invariant()
    def every_byte_is_counted_once(self) -> None:
        assert self.holdings.total == self.total()
        assert self.holdings.total <= MOST
        assert all(holding.size == self.size(holding) for holding in self.held)

    @invariant()
    def nothing_is_remembered_of_those_who_hold_nothing(self) -> None:
        remembered = {holding for holders in self.holdings._by_address.values() for holding in holders}
        assert remembered == set(self.oldest) == {holding for holding, chunks in self.held.items() if chunks}
        assert set(self.holdings._by_address) == set(self.holdings._sizes)
        assert set(self.holdings.sharers) == {id(chunk) for chunks in self.held.values() for chunk in chunks}


TestHoldings = HoldingsMachine.TestCase
TestHoldings.settings = settings(max_examples=sized(60), stateful_step_count=40)


def test_what_is_held_alone_is_counted_as_it_grows_and_the_one_that_began_first_gives_up() -> None:
    holdings = Holdings(100)
    gave_up: list[str] = []

    def hold(name: str, address: str) -> Holding:
        def give_up() -> None:
            gave_up.append(name)
            holding.resize(0)

        holding = holdings.open(address, give_up)
        return holding

    other, first, second = hold("other", "b"), hold("first", "a"), hold("second", "a")
    for holding, size in ((other, 40), (second, 10), (second, 0), (first, 20), (second, 20), (first, 30)):
        holding.resize(size)
    assert (holdings.total, gave_up) == (90, [])
    second.resize(31)
    assert (holdings.total, gave_up) == (71, ["first"])
