"""The checkers that ``--auth`` names: made at the start, and again whenever the configuration is read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from twisted.cred.credentials import IUsernamePassword
from twisted.internet.defer import Deferred

from bussrv.bus.interfaces import Effects, IBus, Use, Withdrawn
from bussrv.errors import ConfigError
from bussrv.formats.objects.server_link import LINK
from bussrv.net.session.protocol import StreamProtocol
from bussrv.policy.logins.checkers import CertificateUsers, Checker, Foreign, Tokens, Users, changes
from bussrv.policy.logins.identity import Identity
from bussrv.policy.logins.login_queue import LoginLimits
from bussrv.policy.permissions.permissions import NOTHING
from bussrv.server.configuration.config import Config
from bussrv.server.configuration.faults import noting
from bussrv.server.configuration.plugins import checker_factories
from bussrv.turns.slices import by_steps


def make_checkers(config: Config, utc: Callable[[], int], reactor: Any, faults: list[str]) -> list[Checker]:
    """The checkers, in their order. Files are read.

    :param utc: the present time, UTC microseconds.
    :param faults: gets a sentence for each one that cannot be used.
    """
    made: list[Checker] = []
    for description in config.auth:
        with noting(config.place("auth"), faults):
            made.append(_checker(description, utc, reactor))
    return made


def _checker(description: str, utc: Callable[[], int], reactor: Any) -> Checker:
    """The checker that a description stands for.

    :raises ConfigError: never quotes more of the description than its kind: secrets may follow.
    """
    kind, _, argument = description.partition(":")
    factories = checker_factories()
    if kind not in factories:
        raise ConfigError(f"there is no checker {kind!r}; there are {', '.join(sorted(factories))}")
    try:
        checker = factories[kind].generateChecker(argument)
        takes = tuple(checker.credentialInterfaces)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"the checker {kind!r} refuses what follows its name: {type(error).__name__}") from None
    if isinstance(checker, Tokens):
        checker.utc = utc
    if isinstance(checker, (Users, Tokens, CertificateUsers)):
        return checker
    if IUsernamePassword not in takes:
        raise ConfigError(f"the checker {kind!r} takes no user with a secret, so no client can use it")
    return Foreign(description, checker, reactor)


LOOK = 60.0
"""The most seconds between two looks at whether a token has expired: somebody may set the clock of the machine."""


class Checkers:
    """The checkers of a server that runs.

    :param identity: is given them.
    """

    def __init__(self, identity: Identity, bus: IBus, reactor: Any) -> None:
        self._identity = identity
        self._bus = bus
        self._reactor = reactor
        self._made: dict[str, Checker] = {}
        self._next_expiry: int | None = None
        self._look_call: Any = None

    def prepare(self, config: Config) -> Use:
        """Make all checkers again. Nothing changes yet.

        :returns: puts them into effect, and ends the sessions of users who are gone; cannot fail.
        :raises ConfigError: has a sentence for each checker that cannot be used.
        """
        faults: list[str] = []
        made = make_checkers(config, self._bus.utc, self._reactor, faults)
        if faults:
            raise ConfigError(*faults)

        def use() -> Effects:
            now = dict(zip(config.auth, made, strict=True))
            before, self._made = self._made, now
            asked, self._bus.access.asks = self._bus.access.asks, bool(config.auth)
            networks = {"inbus": config.inbus_user, LINK: config.link_user}
            settings = self._bus.settings
            limits = LoginLimits(settings.max_waiting_logins, settings.max_waiting_secrets, settings.max_secret_wait)
            self._identity.use(made, settings.trusted_network, networks, limits)
            # Not before the other parts have their new values, such as the policy.
            served = [] if asked or not config.auth else list(self._connections())
            ended: Deferred[Withdrawn] = Deferred()
            self._reactor.callLater(0, self._judge, served, ended)
            self.stop()
            self._wait()
            differences = {name: changes(before.get(name), each) for name, each in now.items()}
            return Effects(tuple(f"{name}: {words}" for name, words in differences.items() if words), ended)

        return use

    def _judge(self, served: list[StreamProtocol], ended: Deferred[Withdrawn]) -> None:
        """End the sessions that may not stay.

        :param served: connections that were served before clients had to prove who they are.
        :param ended: fires with their number.
        """
        self._end(chain(self._withdrawn(), self._not_authenticated(served)), ended)
        self._identity.tell_changed()

    def stop(self) -> None:
        """Look no more for tokens that expire."""
        if self._look_call is not None:
            self._look_call.cancel()
            self._look_call = None

    def _wait(self) -> None:
        """Look again when the next token expires."""
        self._next_expiry = self._identity.next_expiry()
        if self._next_expiry is not None:
            left = (self._next_expiry - self._bus.utc()) / 1_000_000
            self._look_call = self._reactor.callLater(min(LOOK, max(0.0, left)), self._look)

    def _look(self) -> None:
        self._look_call = None
        if self._next_expiry is not None and self._next_expiry <= self._bus.utc():
            self._end(self._withdrawn(), Deferred())
        self._wait()

    def _end(self, sessions: Iterator[tuple[StreamProtocol, str]], ended: Deferred[Withdrawn]) -> None:
        self._bus.slices.do(by_steps(self._evict(sessions, ended), self._reactor.seconds))

    def _evict(self, sessions: Iterator[tuple[StreamProtocol, str]], ended: Deferred[Withdrawn]) -> Iterator[None]:
        withdrawn = Withdrawn()
        try:
            for connection, reason in sessions:
                connection.evict(reason)
                withdrawn.sessions += 1
                yield
        finally:
            ended.callback(withdrawn)

    def _connections(self) -> Iterator[StreamProtocol]:
        everyone = [each for protocols in self._bus.streams.connections for each in protocols]
        # Connections whose TLS handshake is not done have no session yet.
        return (each for each in everyone if isinstance(each, StreamProtocol) and not each.has_ended)

    def _withdrawn(self) -> Iterator[tuple[StreamProtocol, str]]:
        """The sessions of users who are gone, or proved who they are by something that is gone."""
        for each in self._connections():
            proof = each.identification.proof
            if proof is not None and not self._identity.holds(proof):
                yield each, "user-withdrawn"

    def _not_authenticated(self, served: Iterable[StreamProtocol]) -> Iterator[tuple[StreamProtocol, str]]:
        """The sessions that may do nothing any more, because clients have to prove who they are from now on."""
        sessions = self._bus.registry.state.sessions
        for each in served:
            if not each.has_ended and self._bus.access.of(sessions.get(each.session_id)) is NOTHING:
                yield each, "not-authenticated"
