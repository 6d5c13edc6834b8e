"""Who gets an object: every kind of plan against a plain reading of who is there, and when plans are made anew."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.bus.routing.audience import Asker, Everyone, Nobody, OneByOne, OneOf
from bussrv.policy.permissions.file import parse_policy
from tests.bus.harness import NO_ECHO, SERVER, member, parsed
from tests.bus.links.fabric import leave, notify, provide
from tests.bus.reference import ReferenceBus, addresses_of, service_of, wants
from tests.formats.network import Network, drain
from tests.size import sized
from tests.tables import each_row

REFERENCE = ReferenceBus(SERVER)
SERVICES = ("tv", "lamp")
REQUEST = {"event": "services/request", "name": "tv", "id": "q"}
WANTED = (
    {},
    {"receive": "no_echo"},
    {"receive": "no_echo", "types": ["text/*"]},
    {"receive": "events_only"},
    {"receive": "none"},
    {"subscriptions": ["text/*", "@door/*"]},
)
SAID = (
    {"type": "Text/Plain; a=b", "size": 1},
    {"type": "image/png", "sender": "tv"},
    {"size": 1},
    {"event": "door/opened", "type": "text/plain"},
    {"event": "services/request", "name": "tv"},
    {"event": "Services/Request", "name": "lamp", "service": "tv"},
    {"event": "services/request", "service": 7},
    {"event": "services/reply", "in-reply-to": "q"},
    {"event": "Error", "in-reply-to": "other"},
    {"event": "Routing/Disconnect"},
    {"event": "abboe/close/notify", "type": "text/plain"},
)
TO = ("m0", "shared", ["m1", "far"], ["m0", "nobody"], SERVER, "cellar", [])
OBJECTS = [*SAID, *({**fields, "to": to} for fields in SAID for to in TO)]

members = st.lists(
    st.tuples(st.sampled_from(WANTED), st.lists(st.sampled_from(SERVICES), unique=True), st.booleans()),
    min_size=1,
    max_size=4,
)
links = st.none() | st.tuples(st.sampled_from([["*"], ["image/*", "@services/*"]]), st.booleans())


class World:
    """Members ``m0``, ``m1`` and so on, and perhaps a linked server ``cellar`` with its session ``far``.

    :param members: what each wants, which services it provides, and whether it has the further id ``shared``.
    :param link: what the other server wants, and whether ``far`` provides ``tv``; ``None``: there is no link.
    :ivar wanted: what each member wants, by session.
    :ivar held: the routing ids of each session of this world.
    :ivar provided: the services of each sender.
    """

    def __init__(self, members, link):
        self.network = network = Network()
        self.audience, self.state = network.bus.audience, network.registry.state
        self.members, self.link, self.far = [], None, None
        self.provided = {"far": {"tv"} if link is not None and link[1] else set(), "shed": set()}
        for number, (wanted, names, is_shared) in enumerate(members):
            asked = {"receive_mode" if key == "receive" else key: value for key, value in wanted.items()}
            ids = {"routing-id": f"m{number}", "routing-ids": ["shared"] * is_shared}
            self.members.append(network.member(**ids, **asked))
            for name in names:
                self.members[number].send({"event": "services/register", "name": name})
            self.provided[number] = set(names)
        self.sessions = [self.state.owner(f"m{number}") for number in range(len(members))]
        self.wanted = {session: wanted for session, (wanted, _, _) in zip(self.sessions, members, strict=True)}
        if link is not None:
            self.crossing = {"subscriptions": link[0]}
            self.cellar = network.server(directory=True, **self.crossing)
            self.link = network.bus.links.get(self.state.owner("cellar"))
            notify(self.cellar, "far")
            for name in self.provided["far"]:
                provide(self.cellar, "far", name)
            self.far = self.state.owner("far")
        self.held = {each.id: {each.routing_id, *each.routing_ids} for each in self.state.sessions.values()}

    def plan(self, sender, fields):
        """What the audience plans; for everything that is alike, it plans the same or leaves it to each object.

        :param sender: the number of a member, or the routing id of a session of the other server.
        """
        obj = parsed(fields, b"x" * fields.get("size", 0))
        if isinstance(sender, int):
            origin = self.network.bus._origins.of(self.sessions[sender]).origin
        else:
            route = parsed({"route": [sender, "cellar"]}).head.route
            origin = self.network.bus._forwarder.facts(self.link.session_id, route).source.origin
        plan = described(self.audience.plan(origin, obj, self.provided[sender]))
        if "to" not in fields:
            many = self.audience.plan_of_many(origin, obj, self.provided[sender])
            assert many is None or described(many) == plan
        return plan

    # A plain reading.

    def expected(self, sender, fields, asker):
        event, is_addressed = fields.get("event", "").lower(), "to" in fields
        service = REFERENCE.published_on(self.provided[sender], fields)
        if event in ("services/reply", "error"):
            return Asker, self.sessions[asker] if self.was_asked(sender, fields, asker) else None
        if event in ("routing/disconnect", "abboe/close/notify") and not (is_addressed and sender == "shed"):
            return Nobody, service
        if is_addressed:
            return self.addressees(sender, fields)
        if event == "services/request" and self.able(sender, fields):
            providers = set(self.state.services[service_of(fields)])
            return OneOf, self.wanting(fields), self.able(sender, fields), providers
        return Everyone, self.wanting(fields), self.crossing_links(sender, fields), service

    def wanting(self, fields):
        payload = b"x" * fields.get("size", 0)
        return {session for session, wanted in self.wanted.items() if wants(wanted, fields, payload)}

    def taking(self, sender, fields):
        """Those that want an object which is for them alone: not its sender, if that wants no echo."""
        own = self.sessions[sender] if isinstance(sender, int) else None
        has_echo = self.wanted.get(own, {}).get("receive") != "no_echo"
        return {each for each in self.wanting(fields) if each != own or has_echo}

    def crossing_links(self, sender, fields):
        goes = self.link is not None and isinstance(sender, int)
        return {self.link} if goes and wants(self.crossing, fields, b"x" * fields.get("size", 0)) else set()

    def able(self, sender, fields):
        """The providers of the service of a request that can be asked, with the link to those of the other server."""
        service, here = service_of(fields), self.taking(sender, fields)
        providers = self.state.services.get(service, {}) if isinstance(service, str) else {}
        there = {self.far} if isinstance(sender, int) else set()
        return [(each, self.link if each == self.far else None) for each in providers if each in here | there]

    def addressees(self, sender, fields):
        to = addresses_of(fields)
        known = to & set().union(*self.held.values())
        local = {session for session in self.sessions if self.held[session] & to}
        links = {self.link} if self.link is not None and to & {"far", "cellar"} else set()
        is_open = self.link is not None and not to <= known | {SERVER}
        return OneByOne, known, local, links, self.crossing_links(sender, fields) if is_open else None

    def was_asked(self, sender, fields, asker):
        """Whether the sender of a reply was given :data:`REQUEST`, and says that to the one that asked."""
        if fields.get("in-reply-to") != "q":
            return False
        own = self.sessions[asker]
        able = self.able(asker, REQUEST)
        here = {able[0][0]} if able else self.taking(asker, REQUEST)
        there = able[0][1] is not None if able else bool(self.crossing_links(asker, REQUEST))
        if not able and not there and here <= {own}:
            return False  # Nobody else was given it.
        is_local = isinstance(sender, int)
        ids = self.held[own] if is_local else {f"m{asker}"}
        is_for = "to" not in fields or not ids.isdisjoint(addresses_of(fields))
        return is_for and (self.sessions[sender] in here if is_local else there)


def described(plan):
    """A plan, with the sessions and links that get the object."""
    if isinstance(plan, Asker):
        return Asker, plan.ask and plan.ask.asker.session
    if isinstance(plan, OneByOne):
        servers = None if plan.servers is None else {given.link for given in plan.servers.given}
        return OneByOne, set(plan.addresses), set(plan.local), set(plan.links.values()), servers
    if isinstance(plan, Nobody):
        return Nobody, plan.publication and plan.publication.service
    members = {session for group in plan.members for session in group.links}
    if isinstance(plan, OneOf):
        return OneOf, members, [tuple(each) for each in plan.able], set(plan.providers)
    servers = {given.link for given in plan.servers.given}
    return Everyone, members, servers, plan.publication and plan.publication.service


@settings(max_examples=sized(45))
@given(members, links, st.integers(0, 3))
def test_every_object_has_the_right_plan_and_recipients(members, link, asker):
    """``shed`` is known to nobody here: it may be a server, and these may send what clients may not."""
    world = World(members, link)
    asker %= len(members)
    world.members[asker].send(REQUEST)
    for sender in (*range(len(members)), *(("far", "shed") if link is not None else ())):
        for fields in OBJECTS:
            assert world.plan(sender, fields) == world.expected(sender, fields, asker), (sender, fields)


# The generation: what was planned in it stays right.

PLANNED = [{"type": "text/plain", "size": 1}, {"event": "door/opened"}, REQUEST, {**REQUEST, "name": "lamp"}]
POLICY = (
    '[[rule]]\nsend = "*"\naddress = "*"\nobserve = "image/*"\nprovide = "*"\nrequest = "*"\nlink = "*"\ntell = "*"'
)


def judge(world):
    world.network.bus.access.policy = parse_policy(POLICY, Path("policy.toml"), ["objects"])
    world.network.bus.policy_changed()
    world.network.reactor.advance(1)


CHANGES = {
    "a member joins": lambda world: world.network.member(),
    "a member wants something else": lambda world: world.members[0].send(
        {"event": "routing/subscribe", "receive_mode": "events_only"}
    ),
    "a member leaves": lambda world: world.members[1].connection.close(),
    "a member that provides nothing leaves": lambda world: world.members[2].connection.close(),
    "permissions": judge,
    "a service is registered": lambda world: world.members[0].send({"event": "services/register", "name": "lamp"}),
    "a service is unregistered": lambda world: world.members[1].send({"event": "services/unregister", "name": "tv"}),
    "a link is up": lambda world: world.network.server("attic"),
    "a link is down": lambda world: world.cellar.connection.close(),
    "a remote service is advertised": lambda world: provide(world.cellar, "far", "lamp"),
    "a remote service is gone": lambda world: world.cellar.send(
        {"event": "services/unregister", "name": "tv", "route": ["far", "cellar"]}
    ),
    "a remote provider is gone": lambda world: leave(world.cellar, "far"),
}


@each_row("change", CHANGES)
def test_a_change_of_who_gets_an_object_begins_a_generation(change):
    members = [({}, [], False), ({"receive": "no_echo"}, ["tv"], False), ({"receive": "events_only"}, [], False)]
    world = World(members, (["*"], True))
    planned = [world.plan(0, fields) for fields in PLANNED]
    before = world.audience.generation
    CHANGES[change](world)
    assert [world.plan(0, fields) for fields in PLANNED] != planned
    assert world.audience.generation > before


def test_a_better_path_to_a_provider_begins_a_generation(network):
    """So that a remembered plan of a request does not take the longer way."""
    asker, attic, cellar = network.member(), network.server("attic"), network.server("cellar")
    notify(cellar, "far", route=["attic", "cellar"])
    provide(cellar, "far", "tv", route=["far", "attic", "cellar"])
    audience, obj = network.bus.audience, parsed(REQUEST)
    origin = network.bus._origins.of(network.registry.state.owner(asker.routing_id)).origin
    before = audience.generation
    assert [each.link.server_id for each in audience.plan(origin, obj, set()).able] == ["cellar"]
    notify(attic, "far")
    provide(attic, "far", "tv")
    assert [each.link.server_id for each in audience.plan(origin, obj, set()).able] == ["attic"]
    assert audience.generation > before


def test_without_echo_a_member_does_not_get_its_own_request(harness):
    asking, bystander, provider = member(harness, NO_ECHO), member(harness, NO_ECHO), member(harness)
    provider.register("tv")
    assert asking.send({"event": "services/request", "name": "tv"}) == 2
    harness.bus.flush()
    assert (len(asking.got), len(bystander.got), len(provider.got)) == (0, 1, 1)


def test_providers_take_turns_and_others_merely_observe(harness):
    asking, observing = member(harness, NO_ECHO), member(harness)
    first, second = member(harness), member(harness)
    first.register("tv")
    second.register("tv")
    for _ in range(4):
        assert asking.send({"event": "services/request", "name": "tv"}) == 2
    harness.bus.flush()
    assert [len(each.got) for each in (first, second, observing)] == [2, 2, 4]


def test_a_provider_that_does_not_want_it_is_passed_over(harness):
    asking = member(harness, NO_ECHO)
    deaf, provider = member(harness, {"receive": "none"}), member(harness)
    deaf.register("tv")
    provider.register("tv")
    for _ in range(3):
        assert asking.send({"event": "services/request", "name": "tv"}) == 1
    harness.bus.flush()
    assert len(provider.got) == 3


def test_without_echo_a_requester_is_not_chosen_as_provider(harness):
    asking, other = member(harness, NO_ECHO), member(harness, NO_ECHO)
    asking.register("tv")
    other.register("tv")
    for _ in range(2):
        assert asking.send({"event": "services/request", "name": "tv"}) == 1
    harness.bus.flush()
    assert (len(asking.got), len(other.got)) == (0, 2)


def test_turns_begin_anew_with_the_service(harness):
    asking = member(harness, NO_ECHO)
    first, second = member(harness), member(harness)
    for _ in range(2):
        first.register("tv")
        second.register("tv")
        asking.send({"event": "services/request", "name": "tv"})
        first.unregister("tv")
        second.unregister("tv")
    harness.bus.flush()
    assert [len(each.got) for each in (first, second)] == [2, 0]
    assert not harness.bus.audience.provider_round


def test_turns_go_on_while_a_service_has_providers(harness):
    """So a client that registers a service again and again does not decide who is asked."""
    asking = member(harness, NO_ECHO)
    first, second, other = member(harness), member(harness), member(harness, {"receive": "none"})
    first.register("tv")
    second.register("tv")
    for _ in range(4):
        other.register("tv")
        asking.send({"event": "services/request", "name": "tv"})
        other.unregister("tv")
    harness.bus.flush()
    assert [len(each.got) for each in (first, second)] == [2, 2]


def test_remote_providers_are_asked_in_turn_with_local_ones(network, scene):
    member, attic, cellar = scene
    provider = network.member(receive_mode="no_echo")
    provider.send({"event": "services/register", "name": "tv"})
    provide(cellar, "ann", "tv")
    drain([*scene, provider])
    for number in range(4):
        member.send({"event": "services/request", "name": "tv", "id": number})
    asked = [head["id"] for head in provider.heads()], [head["id"] for head in cellar.heads()]
    assert sorted(asked) == [[0, 2], [1, 3]]
    assert attic.heads() == []
