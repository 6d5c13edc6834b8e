"""The paths against an obvious model: everything that was told over every link, in one dictionary."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bussrv.bus.links.paths import Paths, RemoteSession
from tests.size import sized

LINKS = ["link1", "link2", "link3"]
IDS = ["ann", "bob", "attic"]
links = st.sampled_from(LINKS)
routing_ids = st.sampled_from(IDS)

fars = st.builds(
    RemoteSession,
    routing_id=routing_ids,
    path=st.lists(st.sampled_from(["attic", "cellar", "shed"]), min_size=1, max_size=3, unique=True).map(tuple),
    is_member=st.booleans(),
    role=st.sampled_from([None, "server"]),
    tells_all=st.booleans(),
    may_answer=st.booleans(),
    services=st.frozensets(st.sampled_from(["tv", "radio"])),
)


def may_take_requests(remote):
    """A member may that does more than observe; a server may when it keeps its clients to itself."""
    return not remote.tells_all if remote.role == "server" else remote.is_member and remote.may_answer


class PathsMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.paths = Paths()
        self.told = {}

    def best(self, routing_id):
        """The link over which the model reaches a session, and what it was told there."""
        over = [
            (len(remote.path), remote.path, link) for (link, known), remote in self.told.items() if known == routing_id
        ]
        if not over:
            return None, None
        link = min(over)[2]
        return link, self.told[link, routing_id]

    @rule(link=links, remote=fars)
    def receive_advertisement(self, link, remote):
        before = self.best(remote.routing_id)
        self.told[link, remote.routing_id] = remote
        assert self.paths.receive_advertisement(link, remote) == (self.best(remote.routing_id) != before)

    @rule(link=links, routing_id=routing_ids)
    def forget(self, link, routing_id):
        before = self.best(routing_id)
        self.told.pop((link, routing_id), None)
        assert self.paths.forget(link, routing_id) == (self.best(routing_id) != before)

    @rule(link=links)
    def drop(self, link):
        before = {routing_id: self.best(routing_id) for routing_id in IDS}
        self.told = {key: remote for key, remote in self.told.items() if key[0] != link}
        changed = self.paths.drop(link)
        assert sorted(changed) == sorted(each for each in IDS if self.best(each) != before[each])

    @invariant()
    def the_best_are_those_of_the_model(self):
        assert sorted(self.paths) == sorted({routing_id for _, routing_id in self.told})
        for routing_id in IDS:
            assert (self.paths.link_to(routing_id), self.paths.best(routing_id)) == self.best(routing_id)

    @invariant()
    def what_each_link_told_is_known(self):
        for link in LINKS:
            for routing_id in IDS:
                assert self.paths.heard(link, routing_id) == self.told.get((link, routing_id))

    @invariant()
    def sessions_and_services_are_counted(self):
        for link in LINKS:
            told = [remote for (over, _), remote in self.told.items() if over == link]
            assert self.paths.size(link) == sum(1 + len(remote.services) for remote in told)

    @invariant()
    def requests_may_be_taken_where_a_best_path_leads_to_somebody_who_may(self):
        for link in LINKS:
            reached = [remote for over, remote in map(self.best, IDS) if over == link]
            assert self.paths.may_take_requests(link) == any(map(may_take_requests, reached))


PathsMachine.TestCase.settings = settings(max_examples=sized(60), stateful_step_count=30, deadline=None)
TestPaths = PathsMachine.TestCase


def member(*path, **fields):
    return RemoteSession(routing_id="ann", path=path, is_member=True, **fields)


def test_the_home_is_the_first_of_the_path():
    assert member("attic", "cellar").home == "attic"


def test_the_shortest_path_is_best_and_the_next_one_takes_over():
    paths = Paths()
    assert paths.receive_advertisement("link1", member("attic", "cellar"))
    assert paths.receive_advertisement("link2", member("attic"))
    assert paths.link_to("ann") == "link2"
    assert not paths.receive_advertisement("link1", member("attic", "shed"))
    assert paths.drop("link2") == ["ann"]
    assert paths.best("ann") == member("attic", "shed")
    assert paths.drop("link1") == ["ann"]
    assert paths.best("ann") is paths.link_to("ann") is None


def test_saying_the_same_again_changes_nothing():
    paths = Paths()
    assert paths.receive_advertisement("link1", member("attic"))
    assert not paths.receive_advertisement("link1", member("attic"))
    assert paths.receive_advertisement("link1", member("attic", routing_ids=("door",)))


def test_what_was_never_told_is_not_forgotten():
    paths = Paths()
    assert not paths.forget("link1", "ann")
    assert paths.drop("link1") == []
    assert paths.size("link1") == 0
    assert not paths.may_take_requests("link1")
    assert list(paths) == []
