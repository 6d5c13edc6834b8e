"""The rows of a timeline as sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import tzinfo
from typing import Any

from bussrv.errors import REASONS
from bussrv.incidents.vocabulary import clock_said
from bussrv.journal.instants import UTC, time_in
from bussrv.registry.state.naming import is_made_up

Row = Mapping[str, Any]
Word = Callable[[object], str]
"""Quotes a text that a client wrote, so that it can be part of a sentence."""


def sentences(row: Row, word: Word, zone: tzinfo = UTC) -> str:
    """The event of a row and its cause, as far as the journal has them.

    :param zone: of the times in the sentences.
    :param row: one of :func:`bussrv.inspection.timeline.query.timeline`; its timestamps as UTC microseconds.
    """
    return " ".join(_Narration(row, word, zone).sentences())


def duration(seconds: float) -> str:
    """A duration in words, rounded."""
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} days {hours} h" if hours else f"{days} days"


def time_text(micros: int, zone: tzinfo = UTC) -> str:
    """A moment in a sentence, to the second."""
    return time_in(micros, zone)[:19].replace("T", " ")


class _Narration:
    """One row in words."""

    def __init__(self, row: Row, word: Word, zone: tzinfo) -> None:
        self._row = row
        self._zone = zone
        self._word = word

    def sentences(self) -> Iterator[str]:
        yield f"{self._what()}{self._why()}."
        if self._row["suppressed"]:
            yield f"{self._row['suppressed']} more like this were left out of the journal before it."
        yield from self._absence()
        yield from self._availability()

    def _what(self) -> str:
        event = self._row["event"]
        say = _WHAT.get(event)
        if say is None:
            return f"{event}: {self._who()}"
        return say.format_map(self) if isinstance(say, str) else say(self)

    def __getitem__(self, name: str) -> str:
        """A word of a sentence, by its name in ``_WHAT``."""
        if name == "who":
            return self._who()
        return "objects" if name == "service" and self._row["service"] is None else self._field(name)

    # The client.

    def _who(self) -> str:
        return self._known(self._row["session"], self._row["who"] or self._row)

    def _known(self, session: str | None, who: Row | None) -> str:
        """A session by its user, a name that it claims, or its address, with its other names; its ids come last."""
        found = {} if who is None else {name: who[name] for name in _NAMES if who[name]}
        chosen = None if is_made_up(found.get("routing_id", "")) else found.get("routing_id")
        name = found.get("actor") or found.get("claimed") or chosen or found.get("peer")
        about = [f"{said}{self._word(found[each])}" for each, said in _NAMES.items() if found.get(each, name) != name]
        about += [] if session is None else [f"session {self._word(session)}"]
        if name is None:
            return ", ".join(about) or "a client"
        if name not in (found.get("actor"), found.get("peer")):
            about.insert(0, "claimed")
        return f"{self._word(name)} ({', '.join(about)})" if about else self._word(name)

    def _field(self, name: str) -> str:
        value = self._row[name]
        return "unknown" if value is None else self._word(value)

    # The event.

    def _started(self) -> str:
        if self._row["crashed_after"] is None:
            return f"the server {self._field('server')} started"
        return f"the server {self._field('server')} started after a crash"

    def _recovered(self) -> str:
        count = self._row["sessions_closed"] or 0
        sessions = "session" if count == 1 else "sessions"
        return f"the server {self._field('server')} found {count} {sessions} that the crash had left open"

    def _opened(self) -> str:
        over = "" if self._row["protocol"] is None else f" over {self._field('protocol')}"
        home = "" if self._row["home"] is None else f" on the linked server {self._field('home')}"
        return f"{self._who()} opened a session{over}{home}"

    def _identified(self) -> str:
        words = {"routing_id": "routing id", "claimed": "claimed user", "name": "name", "role": "role"}
        said = [f"{called} {self._field(name)}" for name, called in words.items() if self._row[name]]
        return f"{self._who()} stated its names: {', '.join(said) or 'nothing'}"

    def _closed(self) -> str:
        lasted = self._row["duration"]
        after = "" if lasted is None else f" after {duration(lasted / 1_000_000)}"
        return f"the session of {self._who()} ended{after}"

    def _not_proved(self) -> str:
        tried = self._row["claimed"]
        return f"{self._who()} failed to log in" + (f" as {self._field('claimed')}" if tried else "")

    def _administered(self) -> str:
        target = "" if self._row["target"] is None else f" {self._field('target')}"
        return f"{self._who()} did {self._field('action')}{target} through the admin interface"

    def _clock(self) -> str:
        said = clock_said(self._row["ahead"] or 0, self._row["doubt"] or 0)
        return f"the clock of {self._who()} differs " + ("no longer" if said is None else f"from that here: {said}")

    # The cause.

    def _why(self) -> str:
        reason = self._row["reason"]
        if self._row["crashed_after"] is not None:
            return self._crash()
        if reason is None:
            asked = self._row["event"] in {"service.unregistered", "subscription.removed"}
            return ", because it asked for that" if asked else ""
        because = ", because its session ended: " if self._row["with_session"] else ": "
        if self._row["link"] is not None:
            how = f" ({self._reason(self._row['link_reason'])})" if self._row["link_reason"] else ""
            return f"{because}the link to {self._field('link')} was lost{how}"
        other, known_as = self._row["newcomer"], self._row["newcomer_who"]
        if other is not None:
            return f"{because}replaced by {self._known(other, known_as)}"
        return f"{because}{self._reason(reason)}"

    def _crash(self) -> str:
        silent, back = (time_text(self._row[name], self._zone) for name in ("crashed_after", "back_at"))
        if self._row["event"] in {"server.started", "server.recovered"}:
            return f"; the last record before it is of {silent}"
        because = ", because its session ended" if self._row["with_session"] else ""
        return f"{because}: the server crashed at {silent} or later, and found that when it started again at {back}"

    def _reason(self, code: str) -> str:
        return REASONS.get(code) or f"{self._word(code)}"

    # The session while its client is away.

    def _absence(self) -> Iterator[str]:
        row = self._row
        if row["event"] == "session.left":
            yield f"Its session is kept until {time_text(row['until'], self._zone)}."
            yield self._return()
        elif row["left_at"] is not None:
            away = duration((row["moment"] - row["left_at"]) / 1_000_000)
            yield f"It had left at {time_text(row['left_at'], self._zone)}, and was away for {away}."

    def _return(self) -> str:
        over = self._row["absence_over"]
        if over is None:
            return "It has not come back since then."
        away = duration((over - self._row["moment"]) / 1_000_000)
        if self._row["resumed"]:
            return f"It came back at {time_text(over, self._zone)}, after {away}."
        return f"It did not come back: the session was closed at {time_text(over, self._zone)}, after {away}."

    # The service after that.

    def _availability(self) -> Iterator[str]:
        row = self._row
        if row["providers"] is None:
            return
        about = self._word(row["about"])
        begins = row["event"] == "service.registered"
        if row["missing_since"] is not None:
            missing = duration((row["moment"] - row["missing_since"]) / 1_000_000)
            yield f"Nobody had provided {about} for {missing}."
        elif begins and row["providers"] == 1:
            yield f"Nobody provided {about} before, as far as the journal goes back."
        elif row["providers"] > 0:
            others = row["providers"] - begins
            sessions = "session" if others == 1 else "sessions"
            yield f"{others} other {sessions} {'provides' if others == 1 else 'provide'} {about}."
        elif row["missing_until"] is None:
            yield f"Nobody has provided {about} since then."
        else:
            missing = duration((row["missing_until"] - row["moment"]) / 1_000_000)
            until = time_text(row["missing_until"], self._zone)
            next_one = "it again" if row["next_session"] == row["session"] else self._next()
            yield f"Nobody provided {about} for {missing}, until {next_one} did at {until}."

    def _next(self) -> str:
        return self._known(self._row["next_session"], self._row["next_who"])


_NAMES = {"actor": "user ", "claimed": "claims to be ", "peer": "", "routing_id": "routing id "}
"""The names of a session, the most telling first, with the words before each."""

_WHAT: dict[str, str | Callable[[_Narration], str]] = {
    "server.started": _Narration._started,
    "server.stopped": "the server {server} was stopped",
    "server.recovered": _Narration._recovered,
    "session.opened": _Narration._opened,
    "session.identified": _Narration._identified,
    "session.left": "{who} left",
    "session.resumed": "{who} came back to its session",
    "session.closed": _Narration._closed,
    "service.registered": "{who} began to provide {service}",
    "service.unregistered": "{who} stopped providing {service}",
    "service.refused": "{who} was refused to register or unregister {service}",
    "subscription.added": "{who} subscribed to {service}",
    "subscription.removed": "the subscription of {who} to {service} ended",
    "subscription.renewed": "{who} renewed its subscription to {service}",
    "subscription.refused": "{who} was refused to subscribe to {service}, or to unsubscribe from it",
    "auth.succeeded": "{who} logged in as {actor}",
    "auth.failed": _Narration._not_proved,
    "access.denied": "{who} was not allowed to {action} {target} ({rule})",
    "access.used": "{who} used its right to {action} {target} in the hour before",
    "limit.reached": "{who} reached the limit {limit} of {value}",
    "admin.action": _Narration._administered,
    "incident.acknowledged": "{who} acknowledged an incident",
    "link.up": "the link to {who} was established",
    "link.down": "the link to {who} was lost",
    "link.gap": "objects of another server were lost on their way, said {who}",
    "link.forgotten": "the link to {who} was removed or forgotten by an operator",
    "link.clock": _Narration._clock,
}
"""The sentence for each event. A word in braces is a field of the record, or its client."""
