"""Networks of servers that are drawn at random: who publishes where, and who wants what.

Popularity follows Zipf's law: the service of rank ``n`` has ``n ** -exponent`` of the subscriptions of the first. Most
subscriptions are for services of the subscriber's own server. Rates of services follow another ranking.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate


@dataclass(frozen=True)
class Shape:
    """The size and the habits of a network that is to be drawn.

    :ivar exponent: of Zipf's law.
    :ivar mean_subscriptions: services that a session is subscribed to.
    :ivar local: the share of subscriptions, and of requests, that stay at the session's own server.
    :ivar kinds: how many kinds of services there are; a pattern takes all services of a kind, or of a server.
    :ivar pattern_sessions: the share of sessions that have such a pattern.
    :ivar all_sessions: how many sessions have the pattern ``#``, each on another server.
    :ivar types: how many content types there are.
    :ivar type_servers: on how many servers a member wants all objects of a content type.
    :ivar publications: publications a second in the whole network.
    :ivar objects: objects a second that are no publications.
    :ivar requests: requests a second; each has one reply.
    :ivar session_seconds: how long a session lasts.
    """

    servers: int = 100
    sessions: int = 100_000
    services: int = 20_000
    exponent: float = 1.0
    mean_subscriptions: float = 3.0
    local: float = 0.9
    kinds: int = 50
    pattern_sessions: float = 0.001
    all_sessions: int = 0
    types: int = 8
    type_servers: int = 0
    publications: float = 20_000.0
    objects: float = 200.0
    requests: float = 2_000.0
    session_seconds: float = 3600.0


@dataclass(frozen=True)
class Service:
    """A service.

    :ivar home: the number of the server of its provider.
    :ivar content_type: the number of the type of what is published.
    :ivar rate: publications a second.
    """

    name: str
    home: int
    content_type: int
    rate: float


@dataclass
class Wants:
    """The interest of all sessions of a server together.

    :ivar services: numbers of services, also of those that patterns take.
    :ivar types: content types of which members want all objects.
    """

    services: set[int] = field(default_factory=set)
    types: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Network:
    """A network.

    :ivar wants: of each server.
    :ivar objects: objects a second that are no publications, by server and content type.
    :ivar addressed: objects a second for one session each, requests and replies among them, by server and server.
    :ivar changes: advertisements a second of each server: sessions and services that come and go.
    """

    servers: Sequence[str]
    services: Sequence[Service]
    wants: Sequence[Wants]
    objects: dict[tuple[int, int], float]
    addressed: dict[tuple[int, int], float]
    changes: float


def draw(shape: Shape, seed: int) -> Network:
    """A network; the same for the same shape and seed.

    Shapes that differ in ``all_sessions`` and ``type_servers`` alone have the same services and subscriptions.
    """
    chance = random.Random(seed)
    services = _services(shape, chance)
    wants = [Wants() for _ in range(shape.servers)]
    _subscribe(shape, chance, services, wants)
    _observe(shape, chance, wants)
    pairs = [(home, other) for home in range(shape.servers) for other in range(shape.servers) if home != other]
    return Network(
        servers=[f"site-{number:02}" for number in range(shape.servers)],
        services=services,
        wants=wants,
        objects=_objects(shape),
        # A request and its reply.
        addressed=dict.fromkeys(pairs, 2 * shape.requests * (1 - shape.local) / len(pairs)),
        changes=2 * (shape.sessions + shape.services) / shape.session_seconds / shape.servers,
    )


def _services(shape: Shape, chance: random.Random) -> list[Service]:
    ranks = list(range(1, shape.services + 1))
    chance.shuffle(ranks)
    weights = [rank**-shape.exponent for rank in ranks]
    scale = shape.publications / sum(weights)
    types = chance.choices(range(shape.types), _zipf(shape.types, shape.exponent), k=shape.services)
    homes = [chance.randrange(shape.servers) for _ in ranks]
    return [
        Service(f"kind{number % shape.kinds}/site-{home:02}/{number}", home, content_type, weight * scale)
        for number, (home, content_type, weight) in enumerate(zip(homes, types, weights, strict=True))
    ]


def _subscribe(shape: Shape, chance: random.Random, services: Sequence[Service], wants: Sequence[Wants]) -> None:
    """A service's number is its rank in popularity."""
    at: list[list[int]] = [[] for _ in wants]
    of_kind: list[list[int]] = [[] for _ in range(shape.kinds)]
    for number, service in enumerate(services):
        at[service.home].append(number)
        of_kind[number % shape.kinds].append(number)
    everything = list(range(len(services)))
    local = [list(accumulate(_zipf(len(numbers), shape.exponent))) for numbers in at]
    anywhere = list(accumulate(_zipf(len(services), shape.exponent)))
    stops = 1 / (1 + shape.mean_subscriptions)
    for session in range(shape.sessions):
        home = session % shape.servers
        taken = wants[home].services
        while chance.random() >= stops:
            if at[home] and chance.random() < shape.local:
                taken.update(chance.choices(at[home], cum_weights=local[home]))
            else:
                taken.update(chance.choices(everything, cum_weights=anywhere))
        if chance.random() < shape.pattern_sessions:
            taken.update(chance.choice((chance.choice(at), chance.choice(of_kind))))
        if session < shape.all_sessions:
            taken.update(everything)


def _observe(shape: Shape, chance: random.Random, wants: Sequence[Wants]) -> None:
    weights = _zipf(shape.types, shape.exponent)
    for each in chance.sample(list(wants), shape.type_servers):
        each.types.update(chance.choices(range(shape.types), weights))


def _objects(shape: Shape) -> dict[tuple[int, int], float]:
    weights = _zipf(shape.types, shape.exponent)
    share = shape.objects / shape.servers / sum(weights)
    return {(home, each): share * weights[each] for home in range(shape.servers) for each in range(shape.types)}


def _zipf(count: int, exponent: float) -> list[float]:
    return [rank**-exponent for rank in range(1, count + 1)]
