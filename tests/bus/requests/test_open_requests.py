"""Who asked whom what."""

import json
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bussrv.bus.interest.interests import Kind
from bussrv.bus.requests.open_requests import OpenRequests
from bussrv.bus.requests.records import Targets, key_of
from bussrv.errors import OverLimit
from bussrv.wire.objects import encode
from tests.size import sized
from tests.tables import each_row

MAX_AGE = 300
IDS = [1, 1.0, True, "1", "true", 2**61, 2**61 - 2, 2**70, "a", "x" * 300, "x" * 299 + "y", "made1"]
CLIENTS = ["ann", "bob", "eve"]
LINKS = ["cellar", "attic"]
PROVIDERS = ["tv", "radio"]
SERVICES = ["news", "film"]
KIND = Kind("services/request")

ids = st.sampled_from(IDS)


class Seconds:
    now = 0.0

    def __call__(self):
        return self.now


class Bench:
    def __init__(self, most=1000, most_of_one=1000):
        self.seconds = Seconds()
        self.made = 0
        self.requests = OpenRequests(self.seconds, most, most_of_one, MAX_AGE, self.new_id)

    def new_id(self):
        self.made += 1
        return f"made{self.made}"

    def ask(self, session, request_id, asked, routing_id=None, is_remote=False):
        """Make a request, and give it to those it is for."""
        ask = self.open(session, request_id, asked, routing_id, is_remote)
        self.requests.taken(ask)
        return ask

    def open(self, session, request_id, asked, routing_id=None, is_remote=False, *, in_few_steps=True):
        """:param in_few_steps: if a client of this server asks one session."""
        request = (session, routing_id or session, request_id, json.dumps(request_id).encode(), asked)
        if in_few_steps and asked.session is not None and not is_remote:
            return self.requests.open_for_one(*request, self.seconds())
        return self.requests.open(*request, is_remote=is_remote)

    def look_at_forsaken(self):
        """Close those that nobody can answer. :returns: them."""
        gone = []
        while self.requests.forsaken:
            ask = self.requests.forsaken.popleft()
            if self.requests.is_open(ask) and not ask.is_answered and not self.requests.may_be_answered(ask):
                self.requests.close(ask)
                gone.append(ask)
        return gone

    def may_ask(self, *request):
        try:
            self.ask(*request)
        except OverLimit:
            return False
        return True


class Model(RuleBasedStateMachine):
    """Open requests as a plain list: all that may be known of one is looked up by going through it."""

    @initialize()
    def begin(self):
        self.bench = Bench()
        self.open = []

    def present(self):
        return [each for each in self.open if self.bench.seconds.now - each["when"] <= MAX_AGE]

    @rule(
        who=st.tuples(st.sampled_from([None, *LINKS]), st.sampled_from(CLIENTS)),
        request_id=ids,
        whom=st.sampled_from([*PROVIDERS, *LINKS, "everybody", "a group"]),
        service=st.sampled_from([None, *SERVICES]),
        may_answer=st.sets(st.sampled_from(PROVIDERS)),
        is_taken=st.sampled_from([True, True, True, False]),
        in_few_steps=st.booleans(),
    )
    def asks(self, who, request_id, whom, service, may_answer, is_taken, in_few_steps):
        """:param service: of which a provider is chosen; ``None``: it is addressed to one session."""
        session, behind = who if who[0] else (who[1], None)
        who = (session, behind)
        asked = {
            "everybody": Targets(kind=KIND, links=tuple(LINKS)),
            "a group": Targets(kind=KIND, addresses=frozenset(["group"])),
            **{each: self.one(each, service) for each in PROVIDERS},
            **{each: self.one_behind(each, service) for each in LINKS},
        }[whom]
        known = [each for each in self.present() if each["local"] and key_of(each["shown"]) == key_of(request_id)]
        if asked.kind is not None and len(known) == 1 and known[0]["who"] == who and known[0]["asked"] == asked:
            replaced, known = known, []
            others = [each for each in self.present() if each is not replaced[0]]
        else:
            replaced, others = [], self.present()
        if asked.session is not None:
            known = [each for each in known if each["asked"].session in (None, asked.session)]
        local = asked.kind is not None or asked.session is not None
        ask = self.bench.open(session, request_id, asked, behind, behind is not None, in_few_steps=in_few_steps)
        assert (ask.provider_id is not None) == bool(known and local)
        shown = request_id if ask.provider_id is None else ask.provider_id
        if local:
            others = [each for each in others if each["local"]]
            if asked.session is not None:
                others = [each for each in others if each["asked"].session in (None, asked.session)]
            assert key_of(shown) not in [key_of(each["shown"]) for each in others]
        if not is_taken:
            self.bench.requests.withdraw(ask)
            return
        self.bench.requests.taken(ask)
        if asked.kind is not None:
            self.bench.requests.watch(ask, may_answer)
        self.open = [each for each in self.open if each not in replaced]
        for each in self.open:
            is_same = key_of(each["id"]) == key_of(request_id) and each["first"] == ask.routing_id
            if is_same and each["links"] & set(asked.links):
                each["links"] -= set(asked.links)
                each["answered"] = True
        able = set(may_answer) if asked.kind is not None else {asked.session} - {None}
        left = {"left": able, "answered": not (able or asked.links)}
        if left["answered"]:
            self.bench.requests.answered(ask)
        about = {**left, "who": who, "first": ask.routing_id, "when": self.bench.seconds.now, "links": set(asked.links)}
        self.open.append({"ask": ask, "id": request_id, "shown": shown, "asked": asked, "local": local, **about})

    def one(self, session, service):
        return Targets(session=session) if service is None else self.bench.requests.of_provider(session, service)

    def one_behind(self, link, service):
        if service is None:
            return Targets(links=(link,))
        return self.bench.requests.of_provider(link, service, behind="far")

    @rule(who=st.sampled_from([*PROVIDERS, "somebody"]), number=st.integers(0, 20), other=ids)
    def replies(self, who, number, other):
        """To one of those that are open, or to anything."""
        reply_id = self.open[-1 - number]["shown"] if number < len(self.open) else other
        fits = [each for each in self.present() if each["local"] and key_of(each["shown"]) == key_of(reply_id)]
        fits = [each["ask"] for each in fits if each["asked"].session in (None, who)]
        assert len(fits) <= 1
        found = self.bench.requests.given(who, reply_id)
        assert found is (fits[0] if fits else None)
        if found is not None:
            self.bench.requests.answered(found)
            assert found.is_answered
            next(each for each in self.open if each["ask"] is found)["answered"] = True

    @rule(link=st.sampled_from(LINKS), reply_id=ids, to=st.sampled_from([None, ["ann"], ["bob"], ["x", "eve", "ann"]]))
    def replies_over_a_link(self, link, reply_id, to):
        fits = [each for each in self.present() if link in each["links"] and key_of(each["id"]) == key_of(reply_id)]
        if to is not None:
            fits = [each for name in reversed(to) for each in fits if each["first"] == name]
        assert self.bench.requests.went_over(link, reply_id, to) is (fits[-1]["ask"] if fits else None)

    @rule(number=st.integers(0, 20))
    def closes(self, number):
        if number < len(self.open):
            self.bench.requests.close(self.open.pop(number)["ask"])

    @rule(session=st.sampled_from([*CLIENTS, *PROVIDERS, *LINKS]))
    def leaves(self, session):
        self.bench.requests.forget(session)
        ended = [each for each in self.open if each["who"][0] == session]
        ended += [each for each in self.open if each["asked"].session == session and each["answered"]]
        self.open = [each for each in self.open if each not in ended]
        for each in self.open:
            # If two may answer, it is not known which one of them would have.
            if each["left"] == {session}:
                each["left"] = set()
            each["links"].discard(session)
        self.nobody_is_left()

    @rule(session=st.sampled_from(PROVIDERS), service=st.sampled_from(SERVICES))
    def unregisters(self, session, service):
        self.bench.requests.forget_provider(session, service)
        for each in self.open:
            if (each["asked"].session, each["asked"].service) == (session, service):
                each["left"] = set()
        self.nobody_is_left()

    @rule(link=st.sampled_from(LINKS), service=st.sampled_from(SERVICES))
    def unregisters_behind_a_link(self, link, service):
        self.bench.requests.forget_provider(link, service, behind="far")
        for each in self.open:
            if (each["asked"].behind, each["asked"].service) == ("far", service):
                each["links"].discard(link)
        self.nobody_is_left()

    def nobody_is_left(self):
        """Those that nobody can answer any more are closed, each once; those that were answered stay open."""
        alone = [each for each in self.present() if not (each["left"] or each["links"] or each["answered"])]
        assert {id(ask) for ask in self.bench.look_at_forsaken()} == {id(each["ask"]) for each in alone}
        self.open = [each for each in self.open if each not in alone]

    @rule(id_=ids)
    def an_answer_says_the_id_that_the_request_had(self, id_):
        for each in self.present():
            said = json.loads(encode({"in-reply-to": each["ask"].id})[:-1])["in-reply-to"]
            assert key_of(said) == key_of(each["id"])

    @rule(seconds=st.sampled_from([1, 299, 301]))
    def waits(self, seconds):
        self.bench.seconds.now += seconds

    @invariant()
    def those_that_several_clients_of_a_link_made_under_one_id_are_known(self):
        for each in self.present() if hasattr(self, "open") else ():
            same = {
                other["first"]
                for other in self.open
                if other["who"][0] == each["who"][0] and key_of(other["id"]) == key_of(each["id"])
            }
            if each["who"][1] is not None and len(self.open) == len(self.present()):
                assert self.bench.requests.is_ambiguous(each["ask"]) == (len(same) > 1)

    def teardown(self):
        """Nothing is left of what is forgotten."""
        for each in self.open if hasattr(self, "open") else ():
            self.bench.requests.close(each["ask"])
        if hasattr(self, "bench"):
            self.bench.seconds.now += MAX_AGE + 1
            for session in ("nobody", *CLIENTS, *PROVIDERS, *LINKS):
                self.bench.requests.forget(session)
            self.bench.look_at_forsaken()
            tables = vars(self.bench.requests)
            kept = {name: value for name, value in tables.items() if hasattr(value, "__len__") and len(value)}
            assert not kept
            assert len(self.bench.requests) == 0


EXAMPLES = max(sized(150), settings.default.max_examples // 3)
Model.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=40)
TestModel = Model.TestCase


@each_row("one", IDS)
def test_ids_are_equal_only_to_themselves(one):
    assert [another for another in IDS if key_of(another) == key_of(one)] == [one]


def test_a_requester_gives_up_only_its_own_answered_requests():
    bench = Bench(most_of_one=3)
    tv = Targets(session="tv")
    asks = [bench.ask("ann", number, tv) for number in range(3)]
    mine = bench.ask("bob", 1, tv)
    with pytest.raises(OverLimit) as caught:
        bench.ask("ann", 3, tv)
    assert (caught.value.reason, caught.value.limit) == ("too-many-requests", "max-requests-per-asker")
    for ask in (asks[1], mine, asks[0], asks[1]):
        bench.requests.answered(ask)
    bench.ask("ann", 3, tv)
    assert bench.requests.given("tv", 0) is asks[0]
    assert bench.requests.given("tv", asks[1].provider_id or 1) is None
    bench.ask("ann", 4, tv)
    assert [bench.requests.given("tv", each) for each in (0, 2)] == [None, asks[2]]
    assert bench.requests.given("tv", mine.provider_id) is mine


def test_requests_that_are_too_old_count_no_more():
    bench = Bench(most_of_one=2)
    for whom in (Targets(session="tv"), Targets(kind=KIND)):
        for number in range(2):
            bench.ask("ann", number, whom)
        assert not bench.may_ask("ann", 2, whom)
        bench.seconds.now += MAX_AGE + 1
        assert bench.may_ask("ann", 2, whom)
        assert len(bench.requests) == 1
        bench.seconds.now += MAX_AGE + 1


def test_a_requester_at_its_limit_can_repeat_a_request():
    bench = Bench(most_of_one=1)
    everybody = Targets(kind=KIND)
    first = bench.ask("ann", 1, everybody)
    again = bench.open("ann", 1, everybody)
    bench.requests.withdraw(again)
    assert bench.requests.given("tv", 1) is first
    again = bench.ask("ann", 1, everybody)
    assert (bench.requests.given("tv", 1), len(bench.requests)) == (again, 1)
    assert not bench.may_ask("ann", 2, everybody)


def test_those_who_ask_much_leave_some_for_one_who_asks_little():
    bench = Bench(most=100)
    tv = Targets(session="tv")

    def asks_as_much_as_it_can(name):
        return sum(bench.may_ask(name, f"{name} {number}", tv) for number in range(1000))

    asked = [asks_as_much_as_it_can(f"greedy{number}") for number in range(5)]
    assert asked[0] == 50
    assert all(number > 0 for number in asked)
    assert len(bench.requests) <= 100
    assert bench.ask("ann", 1, tv) is not None


def test_a_link_has_half_at_most_and_its_clients_lose_their_own():
    """Whoever answers what came over a link may be on another server: the oldest is given up, answered or not."""
    bench = Bench(most=100, most_of_one=5)
    for client in range(100):
        for number in range(10):
            bench.may_ask("cellar", f"{client} {number}", Targets(session="tv"), f"client{client}", True)
    assert len(bench.requests) == 50
    assert bench.requests.given("tv", "0 0") is None
    assert bench.requests.given("tv", "0 9") is not None


def test_long_ids_and_many_addresses_count_as_more():
    bench = Bench(most_of_one=1000)
    many = Targets(kind=KIND, addresses=frozenset(f"address {number}" for number in range(4000)))
    with pytest.raises(OverLimit):
        bench.ask("ann", 1, many)
    long = "x" * 60_000
    assert sum(bench.may_ask("ann", long, Targets(session="tv")) for _ in range(10)) < 6
    assert len(bench.requests) < 1000


@pytest.mark.dear
def test_the_end_of_one_who_was_asked_much_keeps_nobody_waiting():
    bench = Bench(most=200_000, most_of_one=100_000)
    for number in range(50_000):
        bench.ask("ann", number, Targets(session="tv"))

    # Of CPU, since others may have the core meanwhile.
    begun = time.thread_time()
    bench.requests.forget("tv")
    assert time.thread_time() - begun < 0.1
    assert bench.requests.given("tv", 49_999) is None
    bench.requests.forget("ann")
    for _ in range(1100):
        bench.requests.forget("nobody")
    assert len(bench.requests) == 0
