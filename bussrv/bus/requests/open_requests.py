"""Open requests: only sessions that were asked can reply, and each reply finds the asker. Pure.

A request is *open* from the moment that it was given to somebody until ``--request-timeout``. The sessions that were
asked know it by an id: that of the asker, unless they know another open request by that id. Then they are *shown* an id
of the server's own, and their replies get the asker's id again.

1. A request that one session of this server is given must differ from all others that this session was given.
2. A request that several sessions of this server may be given (it is addressed to several, or nobody registered the
   service) must differ from all others that any session of this server was given.
3. A request keeps its id on a link: the server at the other end does all this for its own sessions.

A request is *forsaken* if it was not replied to, and everybody who may reply is gone. It waits in ``forsaken`` until
:mod:`bussrv.bus.requests.gone_providers` has told its asker.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from bussrv.bus.requests.records import UNIT, OpenRequest, Requester, Targets, is_id, key_of, tells_id
from bussrv.errors import OverLimit

AT_A_TIME = 100
"""The most requests that are forgotten when one is made. More would make other clients wait."""

DIGEST = 64
"""The length of a key that does not hold the id itself."""

_NOTHING: dict[str, Any] = {}

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class OpenRequests:
    """Requests that may still be replied to, bounded in number and age.

    One asker may have at most as many open requests as are still free, so that busy askers leave some for others. No
    request is dropped for another asker's. An asker at its limit loses its own oldest answered request.

    :param seconds: a clock, in seconds, that never steps back.
    :param most: the most requests that are open.
    :param most_of_one: the most open requests of one asker.
    :param max_age: how long a request is open, in seconds.
    :param new_id: makes an id for a request that needs another one.
    :ivar forsaken: requests of which somebody who may reply is gone, in the order in which that was noticed; perhaps
        others may reply.
    """

    def __init__(
        self, seconds: Callable[[], float], most: int, most_of_one: int, max_age: float, new_id: Callable[[], str]
    ) -> None:
        self.seconds = seconds
        self.limit(most, most_of_one, max_age)
        self._new_id = new_id
        self._suffix = 0
        self._size = 0
        self._by_age: OrderedDict[OpenRequest, None] = OrderedDict()
        self._askers: dict[str, dict[str, Requester]] = {}
        self._remote: Counter[str] = Counter()
        self._given: dict[str, dict[str, OpenRequest]] = {}
        self._given_to_several: dict[str, OpenRequest] = {}
        self._shown: Counter[str] = Counter()
        self._over: dict[str, dict[str, dict[str, OpenRequest]]] = {}
        self._same: dict[tuple[str, str], Counter[str]] = {}
        self._of_providers: dict[str, dict[str | tuple[str, str], Targets]] = {}
        self._watched: dict[str, dict[OpenRequest, None]] = {}
        self._doomed: deque[OpenRequest] = deque()
        self.forsaken: deque[OpenRequest] = deque()

    def limit(self, most: int, most_of_one: int, max_age: float) -> None:
        """Have other limits from now on. The age counts for requests that are open, too."""
        self._most = most
        self._most_of_one = most_of_one
        self._max_age = max_age

    def __len__(self) -> int:
        """How many requests the open ones count as."""
        return self._size

    # Asking.

    def open(
        self,
        session: str,
        routing_id: str,
        request_id: Any,
        requester_id: bytes,
        asked: Targets,
        *,
        is_remote: bool = False,
    ) -> OpenRequest:
        """A request is about to be given to those it is for. Next, :meth:`taken` or :meth:`withdraw` is called.

        :param session: the client that asked, or (``is_remote``) the link that the request came over.
        :param routing_id: the first of its route.
        :param requester_id: its id as JSON.
        :raises OverLimit: ``too-many-requests``.
        """
        now = self.seconds()
        self._forget_some(now)
        key, name = key_of(request_id), routing_id if is_remote else ""
        asker = self._askers.get(session, {}).get(name) or Requester(session, name, is_remote)
        older = self._same_before(asker, key, asked)
        is_known = older is None and self._is_known(key, asked)
        keeps_id = is_known or not tells_id(key)
        size = asked.size() + (len(requester_id) // UNIT if keeps_id else 0)
        self._make_room(asker, size, older)
        ask = OpenRequest(asker, routing_id, asked, now, size, key, requester_id if keeps_id else None, older=older)
        if is_known:
            ask.provider_id = self._unknown_id()
        self._add(ask)
        return ask

    def open_for_one(
        self, session: str, routing_id: str, request_id: Any, requester_id: bytes, asked: Targets, now: float
    ) -> OpenRequest:
        """Do as :meth:`open` does, mostly in fewer steps: a client of this server asks one session of it and no link.

        There is no need to call :meth:`taken`.

        :param now: what ``seconds`` said, not long ago.
        """
        ask = self.open_plain(session, routing_id, key_of(request_id), asked, now)
        return ask or self.open(session, routing_id, request_id, bytes(requester_id), asked)

    def open_plain(self, session: str, routing_id: str, key: str, asked: Targets, now: float) -> OpenRequest | None:
        """Do as :meth:`open_for_one` does, if it is the usual case; otherwise nothing.

        :param key: its id as :func:`key_of` has it.
        :raises OverLimit: as :meth:`open` does.
        """
        self._forget_some(now)
        ways = self._ways(session, asked)
        is_unclear = len(key) == DIGEST or key[0] == "f"  # perhaps a digest, or a float
        if ways is None or is_unclear or key in ways[1] or key in self._given_to_several:
            return None
        most = self._most_of_one
        if ways[0].size >= most or ways[0].size >= self._most - self._size:
            self._make_room(ways[0], 1, None)
            ways = self._ways(session, asked)  # What was closed may have been the last.
            if ways is None:
                return None
        asker, given = ways
        ask = given[key] = OpenRequest(asker, routing_id, asked, now, 1, key)
        if asked.asks is not None:
            asked.asks[ask] = None
        self._by_age[ask] = asker.open[ask] = None
        asker.size += 1
        self._size += 1
        self._shown[key] = self._shown.get(key, 0) + 1
        return ask

    def _ways(self, session: str, asked: Targets) -> tuple[Requester, dict[str, OpenRequest]] | None:
        """A client of this server that asks, and what the asked session was given; ``None``: one has nothing open."""
        asker, given = self._askers.get(session, _NOTHING).get(""), self._given.get(asked.session or "")
        return None if asker is None or given is None else (asker, given)

    def of_provider(self, session: str, service: str, *, behind: str | None = None) -> Targets:
        """A provider of a service, as the only one who is given a request.

        :param session: the provider, a session of this server; or the link that leads to it.
        :param behind: its routing id, if it is a session of another server.
        """
        of_session = self._of_providers.setdefault(session, {})
        key = service if behind is None else (behind, service)
        asked = of_session.get(key)
        if asked is None:
            whom: dict[str, Any] = {"session": session} if behind is None else {"links": (session,)}
            asked = of_session[key] = Targets(**whom, service=service, behind=behind, asks={})
        return asked

    def _same_before(self, asker: Requester, key: str, asked: Targets) -> OpenRequest | None:
        """A client may ask several again, under the same id: replies to both requests are for the later one."""
        older = self._given_to_several.get(key) if asked.kind is not None else None
        if older is None or older.asker is not asker or self._shown[key] > 1:
            return None
        is_same = (older.asked.kind, older.asked.addresses) == (asked.kind, asked.addresses)
        return older if is_same else None

    def _is_known(self, key: str, asked: Targets) -> bool:
        """Whether one of those who are asked may know another open request by that id."""
        if asked.kind is not None:
            return key in self._shown
        if asked.session is None:
            return False
        return key in self._given.get(asked.session, ()) or key in self._given_to_several

    def _unknown_id(self) -> str:
        made = self._new_id()
        while key_of(made) in self._shown:
            self._suffix += 1
            made = f"{made}.{self._suffix}"
        return made

    def _make_room(self, asker: Requester, size: int, older: OpenRequest | None) -> None:
        """Forget requests of ``asker`` until it may have one more of that size.

        :param older: an open request that makes way for that one.
        """
        spared = 0 if older is None else older.size
        while asker.size - spared + size > min(self._most_of_one, self._free(asker) + spared):
            # A request that came over a link may have been answered elsewhere.
            oldest = next(iter(asker.answered or (asker.open if asker.is_remote else ())), None)
            if oldest is None:
                limit, most = "max-requests-per-asker", self._most_of_one
                if asker.size - spared + size <= most:
                    limit, most = "max-requests", self._most
                raise OverLimit("too-many-requests", "there are too many open requests of this client", limit, most)
            if oldest is older:
                spared = 0
            self.close(oldest)

    def _free(self, asker: Requester) -> int:
        """How many more may be open. One link never has more than half of all."""
        free = self._most - self._size
        return min(free, self._most // 2 - self._remote[asker.session]) if asker.is_remote else free

    def _add(self, ask: OpenRequest) -> None:
        asker, asked, key = ask.asker, ask.asked, ask.shown_key
        self._askers.setdefault(asker.session, {})[asker.name] = asker
        self._by_age[ask] = asker.open[ask] = None
        self._count(ask, ask.size)
        if asked.asks is not None:
            asked.asks[ask] = None
        if asked.kind is not None:
            self._given_to_several[key] = ask
            self._shown[key] += 1
        elif asked.session is not None:
            self._given.setdefault(asked.session, {})[key] = ask
            self._shown[key] += 1
        if asker.is_remote:
            self._same.setdefault((asker.session, ask.key), Counter())[ask.routing_id] += 1

    def taken(self, ask: OpenRequest) -> None:
        """Somebody was given a request: from now on replies to its id, also over links, are for it."""
        if ask.older is not None:
            self.close(ask.older)
            ask.older = None
        for link in ask.asked.links:
            asks = self._over.setdefault(link, {}).setdefault(ask.key, {})
            before = asks.pop(ask.routing_id, None)
            if before is not None:
                # It gets no more replies over this link.
                self.answered(before)
            asks[ask.routing_id] = ask

    def watch(self, ask: OpenRequest, answerers: Collection[str]) -> None:
        """Of several that were asked, these sessions of this server may answer. More than two need not be named."""
        ask.is_forsaken = not answerers
        if len(answerers) == 1:
            (ask.watched,) = answerers
            self._watched.setdefault(ask.watched, {})[ask] = None

    def withdraw(self, ask: OpenRequest) -> None:
        """Nobody was given a request: replies to its id are for the same earlier request as before."""
        older, ask.older = ask.older, None
        self.close(ask)
        if older is not None and older in older.asker.open:
            self._given_to_several[older.shown_key] = older

    def _count(self, ask: OpenRequest, size: int) -> None:
        ask.asker.size += size
        self._size += size
        if ask.asker.is_remote:
            self._remote[ask.asker.session] += size
            if not self._remote[ask.asker.session]:
                del self._remote[ask.asker.session]

    # Replying.

    def given(self, session: str, reply_id: Any, now: float | None = None) -> OpenRequest | None:
        """The open request that a session of this server knows by that id, if it was given it.

        Where ``asked.kind`` of it is not ``None``, the caller has to find out whether the session was given it.

        :param now: what ``seconds`` said, if it said it not long ago.
        """
        key = key_of(reply_id) if is_id(reply_id) else ""
        ask = self._given.get(session, _NOTHING).get(key) or self._given_to_several.get(key)
        return ask if ask is not None and self._is_open(ask, self.seconds() if now is None else now) else None

    def given_plain(self, session: str, key: str, now: float) -> OpenRequest | None:
        """As :meth:`given`, for a request of a client of this server that this session alone was given, by its own id.

        :param key: the id of the reply, as :func:`key_of` has it.
        """
        ask: OpenRequest | None = self._given.get(session, _NOTHING).get(key)
        if ask is None or ask.provider_id is not None or ask.asker.is_remote or not self._is_open(ask, now):
            return None
        return ask

    def went_over(self, link: str, reply_id: Any, to: Iterable[str] | None) -> OpenRequest | None:
        """The open request that the reply of another server is for.

        :param to: whom the reply is addressed to; ``None``: it is for who used the id last.
        """
        asks = self._over.get(link, {}).get(key_of(reply_id) if is_id(reply_id) else "", {})
        found = reversed(asks.values()) if to is None else (asks[each] for each in to if each in asks)
        ask = next(found, None)
        return ask if ask is not None and self._is_open(ask, self.seconds()) else None

    def is_open(self, ask: OpenRequest) -> bool:
        """Whether a request may still be replied to."""
        return self._is_open(ask, self.seconds())

    def _is_open(self, ask: OpenRequest, now: float) -> bool:
        return ask in ask.asker.open and now - ask.when <= self._max_age

    def answered(self, ask: OpenRequest) -> None:
        """A request was replied to; it stays open for further replies."""
        ask.asker.answered.setdefault(ask)

    def is_ambiguous(self, ask: OpenRequest) -> bool:
        """Whether open requests of several clients came over one link with the same id."""
        return len(self._same.get((ask.asker.session, ask.key), ())) > 1

    # Forgetting.

    def close(self, ask: OpenRequest) -> None:
        """Forget a request."""
        asker = ask.asker
        if ask not in asker.open:
            return
        del self._by_age[ask], asker.open[ask]
        asker.answered.pop(ask, None)
        self._count(ask, -ask.size)
        if not asker.open:
            _remove(self._askers, asker.session, asker.name, asker)
        if ask.asked.asks is not None:
            del ask.asked.asks[ask]
            if not ask.asked.asks and ask.asked.behind is not None:
                # A session of another server has no open request any more.
                key = (ask.asked.behind, ask.asked.service or "")
                _remove(self._of_providers, ask.asked.links[0], key, ask.asked)
        if ask.watched is not None:
            _remove(self._watched, ask.watched, ask, None)
        self._forget_id(ask)
        for link in ask.asked.links:
            self._forget_over(ask, link)
        if asker.is_remote:
            same = self._same[asker.session, ask.key]
            _take_one(same, ask.routing_id)
            if not same:
                del self._same[asker.session, ask.key]

    def _forget_id(self, ask: OpenRequest) -> None:
        """No session of this server knows a request by its id any more."""
        asked, key = ask.asked, ask.shown_key
        if asked.kind is not None or asked.session is not None:
            _take_one(self._shown, key)
        if asked.kind is not None and self._given_to_several[key] is ask:
            del self._given_to_several[key]
        elif asked.session is not None:
            _remove(self._given, asked.session, key, ask)

    def forget(self, session: str) -> None:
        """A session is over: what it asked needs no answer any more, and what it alone was asked is forsaken."""
        for asker in tuple(self._askers.get(session, {}).values()):
            self._doomed.extend(asker.open)
        self._of_providers.pop(session, None)
        given = self._given.pop(session, {}).values()
        self._forsake(given)
        self._doomed.extend(ask for ask in given if ask.is_answered)
        self._forsake(self._watched.pop(session, {}))
        over = self._over.pop(session, None)
        if over is not None:
            # In the order in which they were made.
            self.forsaken.extend(ask for ask in self._by_age if over.get(ask.key, _NOTHING).get(ask.routing_id) is ask)
        self._forget_some(self.seconds())

    def _forsake(self, asks: Iterable[OpenRequest]) -> None:
        for ask in asks:
            ask.watched, ask.is_forsaken = None, True
        self.forsaken.extend(asks)

    def forget_provider(self, session: str, service: str, *, behind: str | None = None) -> None:
        """A session provides a service no longer; see :meth:`of_provider`. Its requests for that are forsaken."""
        asked = self._of_providers.get(session, {}).pop(service if behind is None else (behind, service), None)
        if asked is None or asked.asks is None:
            return
        if not self._of_providers[session]:
            del self._of_providers[session]
        if behind is None:
            self._forsake(asked.asks)
        else:
            for ask in tuple(asked.asks):
                self.forget_link(ask, session)

    def forget_link(self, ask: OpenRequest, link: str) -> None:
        """Nobody over a link may answer a request any more."""
        self._forget_over(ask, link)
        self.forsaken.append(ask)

    def _forget_over(self, ask: OpenRequest, link: str) -> None:
        asks = self._over.get(link, {})
        _remove(asks, ask.key, ask.routing_id, ask)
        if not asks:
            self._over.pop(link, None)

    def may_be_answered(self, ask: OpenRequest) -> bool:
        """Whether somebody is left who may answer a request, as far as is known."""
        is_local = ask.asked.session is not None or ask.asked.kind is not None
        return (is_local and not ask.is_forsaken) or any(
            self._over.get(link, _NOTHING).get(ask.key, _NOTHING).get(ask.routing_id) is ask for link in ask.asked.links
        )

    def _forget_some(self, now: float) -> None:
        if self._doomed:
            for _ in range(min(AT_A_TIME, len(self._doomed))):
                self.close(self._doomed.popleft())
        oldest = now - self._max_age
        for _ in range(AT_A_TIME):
            ask = next(iter(self._by_age), None)
            if ask is None or ask.when >= oldest:
                break
            self.close(ask)


def _remove(tables: dict[str, dict[_Key, _Value]], outer: str, inner: _Key, value: _Value) -> None:
    """Take ``value`` out of the table it is in, and the table when it is empty."""
    table = tables.get(outer)
    if table is not None and table.get(inner) is value:
        del table[inner]
        if not table:
            del tables[outer]


def _take_one(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
