"""Who gets what, written to be obvious: every object is held against every session, one by one, and sent at once.

No groups, no batches, no caches: what the bus does faster has to come out the same.
"""

import base64
import json
import re
import struct
from dataclasses import dataclass, field

REQUEST_SECONDS = 300


# Interest: a subscription as it came, and an object as it came.


def wants(subscription, fields, payload=b""):
    """Whether what was asked for with ``subscription`` (attributes) lets an object pass."""
    if "subscriptions" in subscription:
        return rules_want(subscription["subscriptions"], fields)
    return mode_wants(subscription.get("receive", "all"), subscription.get("types", "all"), fields, payload)


def mode_wants(receive, types, fields, payload):
    if receive == "none":
        return False
    if fields.get("event") is not None:
        return True
    if receive == "events_only" or types == "none":
        return False
    if types == "all":
        return True
    content_type = bare(fields.get("type") or "") or ("application/octet-stream" if payload else "")
    return any(glob(bare(pattern), content_type) for pattern in types)


def rules_want(rules, fields):
    verdict = False
    for rule in ["*"] if rules == "all" else rules:
        if isinstance(rule, str):
            verdict = verdict if judged(rule, fields) is None else judged(rule, fields)
        else:
            decided = [judged(inner, fields) for inner in flat(rule) if judged(inner, fields) is not None]
            if decided:
                return decided[0]
    return verdict


def flat(rules):
    return [inner for rule in rules for inner in ([rule] if isinstance(rule, str) else flat(rule))]


def judged(rule, fields):
    """What one rule says of an object: true, false, or ``None`` if it does not match."""
    negated = rule.startswith("!")
    test = rule[negated:].lower()
    if test == "*":
        matches = True
    elif test.startswith("#"):
        matches = any(prefix(test[1:], nature.lower()) for nature in fields.get("natures") or [])
    elif test.startswith("@"):
        matches = fields.get("event") is not None and prefix(test[1:], fields["event"].lower())
    else:
        matches = prefix(test, bare(fields.get("type") or ""))
    return (not negated) if matches else None


def prefix(pattern, text):
    """Only a ``*`` at the end is a wildcard."""
    return (
        re.fullmatch(re.escape(pattern[:-1]) + ".*" if pattern.endswith("*") else re.escape(pattern), text, re.S)
        is not None
    )


def glob(pattern, text):
    wildcards = {"*": ".*", "?": "."}
    return re.fullmatch("".join(wildcards.get(each, re.escape(each)) for each in pattern), text, re.S) is not None


def bare(content_type):
    return content_type.split(";")[0].strip().lower()


# What goes out.


def frame(fields, payload=b""):
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\0" + payload


def spp_info(service, payload):
    name = service.encode()
    data = struct.pack(">I", len(name)) + name + struct.pack(">I", len(payload)) + payload
    return struct.pack(">II", 16, len(data)) + data


def inbus_publish(service, app_type, payload, version):
    try:
        text = payload.decode() if version == 1 else base64.b64encode(payload).decode()
    except UnicodeDecodeError:
        text = base64.b64encode(payload).decode()
    fields = {"version": version, "opcode": 3, "application": [service, app_type], "address": ["", 0], "payload": text}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass
class Session:
    """``subscription`` holds the attributes that a member subscribed with, ``watched`` a version for each service.

    ``server`` is the routing id of the linked server that it is; ``tells_all``: that one tells of all its members.
    """

    id: str
    kind: str
    routing_id: str = ""
    routing_ids: tuple = ()
    subscription: dict | None = None
    vocabulary: str | None = None
    watched: dict = field(default_factory=dict)
    got: list = field(default_factory=list)
    server: str | None = None
    tells_all: bool = False


@dataclass
class Ask:
    """A request. ``replies``: the number of the newest reply to it, counting from 1 over all replies."""

    asker: str
    service: object
    when: float
    replies: int = 0


class ReferenceBus:
    def __init__(self, server_id):
        self.server_id = server_id
        self.now = 0.0
        self.sessions = {}
        self.providers = {}
        self.last = {}
        self.turns = {}
        self.requests = {}
        self.replies = 0
        self.was_asked_itself = False

    # Coming and going.

    def open(self, session_id, kind, routing_id):
        self.sessions[session_id] = Session(session_id, kind, routing_id)

    def join(self, session_id, routing_id, routing_ids, subscription, vocabulary, fresh):
        session = self.sessions[session_id]
        if session.subscription is not None and session.routing_id != routing_id:
            for spoken in ("objects", "rules"):
                gone = {"routing-id": session.routing_id}
                self.announce("routing/disconnect", spoken, gone, session_id, fresh)
        session.routing_id, session.routing_ids = routing_id, routing_ids
        session.subscription, session.vocabulary = subscription, vocabulary
        about = {"routing-id": routing_id, "routing-ids": list(routing_ids)}
        if session.server is not None:
            about["role"] = "server"
        self.announce("routing/subscribe/notify", "objects", about, session_id, fresh)
        self.announce("routing/subscribe/notification", "rules", about, session_id, fresh)

    def leave(self, session_id, fresh):
        session = self.sessions.pop(session_id)
        for service in sorted(self.providers):
            self.unregister(session_id, service)
        if session.subscription is not None:
            for vocabulary in ("objects", "rules"):
                about = {"routing-id": session.routing_id}
                self.announce("routing/disconnect", vocabulary, about, session_id, fresh)

    def announce(self, event, vocabulary, about, session_id, fresh):
        fields = {"event": event, **about, "id": fresh, "route": [self.server_id]}
        for other in self.members():
            if other.id != session_id and other.vocabulary == vocabulary and wants(other.subscription, fields):
                other.got.append(frame(fields))

    def watch(self, session_id, service, version):
        self.sessions[session_id].watched[service] = version

    def unwatch(self, session_id, service):
        self.sessions[session_id].watched.pop(service)

    def register(self, session_id, service):
        self.providers.setdefault(service, []).append(session_id)

    def unregister(self, session_id, service):
        if session_id in self.providers.get(service, []):
            self.providers[service].remove(session_id)
            if not self.providers[service]:
                for table in (self.providers, self.last, self.turns):
                    table.pop(service, None)

    def provided(self, session_id):
        return {service for service, providers in self.providers.items() if session_id in providers}

    def members(self):
        return [session for session in self.sessions.values() if session.subscription is not None]

    def tell(self, session_id, fields):
        self.sessions[session_id].got.append(frame(fields))

    # What is sent.

    def route(self, sender_id, fields, payload, fresh):
        """:returns: how many members got it, the sender only counted where it was asked for a service of its own."""
        sender = self.sessions[sender_id]
        if sender.subscription is None:
            return 0
        route = [sender.routing_id, self.server_id]
        return self.send_on(sender, fields, payload, fresh, route, self.provided(sender_id))

    def send_on(self, sender, fields, payload, fresh, route, provided):
        """What a member sent, or a linked server passed on.

        :param provided: the services of who sent it first.
        """
        self.was_asked_itself = False
        sent = dict(fields)
        if sent.get("id") is None:
            sent["id"] = fresh
        sent["route"] = route
        service = self.published_on(provided, fields)
        if service is not None:
            app_type = fields.get("app-type", 1)
            self.to_watchers(service, app_type if type(app_type) is int else 1, payload)
        return self.give(sender, self.recipients(sender, sent), sent, payload)

    def published_on(self, provided, fields):
        """The service that an object is a publication on, if it is one."""
        event = fields.get("event")
        if event is not None and event.startswith(("services/", "routing/")):
            return None
        if fields.get("to") is not None or not (fields.get("type") or fields.get("size")):
            return None
        if "sender" in fields:
            return fields["sender"] if fields["sender"] in provided else None
        return min(provided) if len(provided) == 1 else None

    def recipients(self, sender, sent):
        everybody = self.members()
        if sent.get("to") is not None:
            if sent.get("event") == "services/request":
                self.remember(None, sent, sender)
            elif sent.get("event") == "services/reply":
                self.asker(sent, sender)
            to = {sent["to"]} if isinstance(sent["to"], str) else set(sent["to"])
            is_known = to <= {self.server_id}.union(*(held(each) for each in self.sessions.values()))
            return [each for each in everybody if held(each) & to or (each.server and not is_known)]
        if sent.get("event") == "services/request":
            return self.asked(sender, sent, everybody)
        if sent.get("event") == "services/reply":
            asker = self.asker(sent, sender)
            if asker is not None:
                return [each for each in everybody if each.id == asker]
        return everybody

    def asker(self, reply, replier):
        """Who made the request: of ``replier``, or else of anybody; for that service, or else for any."""
        for asked in (replier.id, None):
            asks = self.requests.get((asked, identity(reply.get("in-reply-to"))), [])
            asks[:] = [ask for ask in asks if self.now - ask.when <= REQUEST_SECONDS]
            waiting = [ask for ask in asks if not ask.replies]
            if asks:
                ask = waiting[0] if waiting else max(asks, key=lambda each: each.replies)
                for each in reversed(waiting):
                    ask = each if each.service == service_of(reply) else ask
                self.replies += 1
                ask.replies = self.replies
                return ask.asker
        return None

    def remember(self, asked, request, sender):
        asks = self.requests.setdefault((asked, identity(request["id"])), [])
        asks.append(Ask(sender.id, service_of(request), self.now))

    def asked(self, sender, sent, everybody):
        """One provider in turn, and everybody who provides it not; without a provider that takes it: everybody."""
        name = sent.get("name", sent.get("service"))
        providers = self.providers.get(name, []) if isinstance(name, str) else []
        able = [each for each in providers if self.takes(sender, self.sessions[each], sent)]
        if not able:
            self.remember(None, sent, sender)
            return everybody
        turn = self.turns.get(name, 0)
        self.turns[name] = turn + 1
        chosen = able[turn % len(able)]
        self.remember(chosen, sent, sender)
        self.was_asked_itself = chosen == sender.id
        return [each for each in everybody if each.id == chosen or not (each.id in providers or each.server)]

    def takes(self, sender, member, sent, payload=b""):
        if member.subscription is None or not wants(member.subscription, sent, payload):
            return False
        if member.server in sent["route"]:
            return False
        return not (member is sender and member.subscription.get("receive") == "no_echo")

    def give(self, sender, recipients, sent, payload):
        taking = [each for each in recipients if self.takes(sender, each, sent, payload)]
        for each in taking:
            each.got.append(frame(sent, payload))
        return sum(each is not sender and not each.tells_all for each in taking) + self.was_asked_itself

    def publish(self, session_id, service, content_type, payload, app_type, fresh):
        self.to_watchers(service, app_type, payload)
        sent = {
            "type": content_type,
            "size": len(payload),
            "sender": service,
            "id": fresh,
            "route": [self.sessions[session_id].routing_id, self.server_id],
            "app-type": app_type,
        }
        for each in self.members():
            if wants(each.subscription, sent, payload) and each.server not in sent["route"]:
                each.got.append(frame(sent, payload))

    def to_watchers(self, service, app_type, payload):
        self.last[service] = payload
        for each in self.sessions.values():
            if service in each.watched and each.kind == "spp":
                each.got.append(spp_info(service, payload))
            elif service in each.watched:
                each.got.append(inbus_publish(service, app_type, payload, each.watched[service]))


def held(session):
    """The routing ids at which a session is reached."""
    return {session.routing_id, *session.routing_ids}


def service_of(fields):
    return fields.get("name", fields.get("service"))


def identity(request_id):
    """1, 1.0 and true are different ids."""
    return type(request_id).__name__, json.dumps(request_id)
