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


def has_named(subscription, service):
    """Whether publications on a service come whatever they are. Who receives nothing gets none."""
    wanted = subscription.get("services") or ()
    return any(names(each, service) for each in wanted) and subscription.get("receive") != "none"


def link_wants(interest, fields, payload, service):
    """Whether a linked server with that interest wants something that is for everybody."""
    if any(names(each, service) for each in interest["names"]):
        return True
    if fields.get("event") is not None:
        return interest["events"]
    return mode_wants("all", interest["types"], fields, payload)


def names(wanted, service):
    """Whether what was subscribed to is that service, or a pattern that its name matches."""
    if wanted == service:
        return True
    if service is None or (service.startswith(("$", "bus/")) and wanted.split("/")[0] != service.split("/")[0]):
        return False
    levels = {"+": "[^/]*", "#": ".*"}
    written = "/".join(levels.get(level, re.escape(level)) for level in wanted.split("/"))
    rest = written.removesuffix("/.*") if wanted.endswith("/#") else written
    return any(re.fullmatch(each, service, re.S) for each in (written, rest)) and written != re.escape(wanted)


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
    if isinstance(rules, str):
        rules = ["*"] if rules == "all" else [rule.strip() for rule in rules.split(",") if rule.strip()]
    for rule in rules:
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
    """``subscription`` holds the attributes that a member subscribed with, ``subscribed`` a version for each service.

    ``server`` is the routing id of the linked server that it is; ``tells_all``: that one tells of all its members;
    ``interest``: what it wants of things for everybody, if it said so.
    """

    id: str
    kind: str
    routing_id: str = ""
    routing_ids: tuple = ()
    subscription: dict | None = None
    vocabulary: str | None = None
    subscribed: dict = field(default_factory=dict)
    got: list = field(default_factory=list)
    server: str | None = None
    tells_all: bool = False
    interest: dict | None = None
    has_replied: bool = False


@dataclass(eq=False)
class Ask:
    """An open request.

    ``asker`` is given the replies, a client or a link; ``first`` is who asked. Those who may answer: the session
    ``chosen``; or (``several``) each of the sessions ``present`` that wants what was ``sent``, if it has one of the
    ``addresses``; and the ``links``. Sessions of this server know it as ``shown``.

    ``chosen`` or, of several, the only one who may answer is ``awaited``, as a provider of ``service`` if there is one.
    If nobody is left, the asker is told, unless it was ``answered``.
    """

    asker: str
    first: str
    sent: dict
    when: float
    shown: object = None
    chosen: str | None = None
    several: bool = False
    present: frozenset = frozenset()
    addresses: frozenset | None = None
    links: set = field(default_factory=set)
    service: str | None = None
    awaited: str | None = None
    forsaken: bool = False
    answered: bool = False
    older: "Ask | None" = None

    @property
    def is_local(self):
        return self.several or self.chosen is not None


class ReferenceBus:
    def __init__(self, server_id):
        self.server_id = server_id
        self.now = 0.0
        self.sessions = {}
        self.providers = {}
        self.last = {}
        self.turns = {}
        self.requests = []
        self.renamed = 0

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
        self.requests = [ask for ask in self.requests if ask.asker != session_id]
        for service in sorted(self.providers):
            self.unregister(session_id, service)
        self.forsake([ask for ask in self.open_asks() if ask.chosen == session_id])
        self.requests = [ask for ask in self.requests if ask.chosen != session_id]
        self.forsake([ask for ask in self.open_asks() if ask.awaited == session_id])
        self.lose_link(session_id, [ask for ask in self.open_asks() if session_id in ask.links])
        if session.subscription is not None:
            for vocabulary in ("objects", "rules"):
                about = {"routing-id": session.routing_id}
                self.announce("routing/disconnect", vocabulary, about, session_id, fresh)

    def announce(self, event, vocabulary, about, session_id, fresh):
        fields = {"event": event, **about, "id": fresh, "route": [self.server_id]}
        for other in self.members():
            if other.id != session_id and other.vocabulary == vocabulary and wants(other.subscription, fields):
                other.got.append(frame(fields))

    def subscribe_to(self, session_id, service, version):
        self.sessions[session_id].subscribed[service] = version

    def unsubscribe_from(self, session_id, service):
        self.sessions[session_id].subscribed.pop(service)

    def register(self, session_id, service):
        self.providers.setdefault(service, []).append(session_id)

    def unregister(self, session_id, service):
        if session_id in self.providers.get(service, []):
            self.forsake([ask for ask in self.open_asks() if (ask.chosen, ask.service) == (session_id, service)])
            self.providers[service].remove(session_id)
            if not self.providers[service]:
                for table in (self.providers, self.last, self.turns):
                    table.pop(service, None)

    def forsake(self, asks):
        """Nobody of this server may answer these any more."""
        for ask in asks:
            ask.forsaken = True
            self.tell_if_nobody_is_left(ask)

    def lose_link(self, link_id, asks):
        """Nobody over a link may answer these any more."""
        for ask in asks:
            ask.links.discard(link_id)
            self.tell_if_nobody_is_left(ask)

    def tell_if_nobody_is_left(self, ask):
        if ask.answered or ask.links or (ask.is_local and not ask.forsaken):
            return
        self.requests.remove(ask)
        if ask.asker != ask.chosen and ask.asker in self.sessions:
            self.provider_gone(ask)

    def provider_gone(self, ask):
        if self.sessions[ask.asker].subscription.get("receive") == "none":
            return
        whose = "the provider" if ask.service is None else f"the provider of {ask.service!r}"
        about = {"reason": "provider-gone", "message": f"{whose} went before it answered"}
        is_remote = self.sessions[ask.asker].server is not None
        behind = {"to": ask.first, "route": [self.server_id]} if is_remote else {}
        self.tell(ask.asker, {"event": "error", "in-reply-to": ask.sent["id"], **behind, **about})

    def provided(self, session_id):
        return {service for service, providers in self.providers.items() if session_id in providers}

    def members(self):
        return [session for session in self.sessions.values() if session.subscription is not None]

    def tell(self, session_id, fields):
        self.sessions[session_id].got.append(frame(fields))

    # What is sent.

    def route(self, sender_id, fields, payload, fresh):
        """:returns: how many members got it; the sender only counts where it was asked for a service of its own."""
        sender = self.sessions[sender_id]
        if sender.subscription is None:
            return 0
        route = [sender.routing_id, self.server_id]
        return self.send_on(sender, fields, payload, fresh, route, self.provided(sender_id))

    def send_on(self, sender, fields, payload, fresh, route, provided):
        """What a member sent, or a linked server passed on.

        :param provided: the services of who sent it first.
        """
        sent = dict(fields)
        if sent.get("id") is None:
            sent["id"] = fresh
        sent["route"] = route
        service = self.published_on(provided, fields)
        if service is not None:
            app_type = fields.get("app-type", 1)
            self.to_subscribers(service, app_type if type(app_type) is int else 1, payload)
        event = (sent.get("event") or "").lower()
        if event == "services/request":
            return self.ask(sender, sent, payload, fresh)
        if event in ("services/reply", "error"):
            return self.answer_of(sender, sent, payload)
        others = self.give(sender, self.recipients(sent), sent, payload, service=service)
        if event == "services/discovery" and sent.get("to") is None and not self.may_answer(sender, sent):
            return 0
        return others

    def published_on(self, provided, fields):
        """The service that an object is a publication on, if it is one."""
        event = (fields.get("event") or "").lower()
        if event == "error" or event.startswith(("services/", "routing/", "client/", "clients/")):
            return None
        if fields.get("to") is not None or not (fields.get("type") or fields.get("size")):
            return None
        if "sender" in fields:
            return fields["sender"] if fields["sender"] in provided else None
        return min(provided) if len(provided) == 1 else None

    def recipients(self, sent):
        """The members, and the links, that something is for."""
        if sent.get("to") is None:
            return self.members()
        is_known = addresses_of(sent) <= {self.server_id}.union(*(held(each) for each in self.sessions.values()))
        to = addresses_of(sent)
        return [each for each in self.members() if held(each) & to or (each.server and not is_known)]

    # Requests, and replies to them.

    def open_asks(self):
        return [ask for ask in self.requests if self.now - ask.when <= REQUEST_SECONDS]

    def ask(self, sender, sent, payload, fresh):
        """To those that it is addressed to, or to one provider and everybody who merely observes, or to everybody.

        :returns: how many were given it; nobody, if none of them may answer it.
        """
        ask = Ask(sender.id, sent["route"][0], sent, self.now)
        recipients, asked_itself = self.recipients(sent), 0
        members = frozenset(each.id for each in self.members())
        if sent.get("to") is not None:
            local = [each for each in self.sessions.values() if held(each) & addresses_of(sent) and not each.server]
            if len(local) > 1:
                ask.several, ask.present, ask.addresses = True, members, frozenset(addresses_of(sent))
            elif local and self.takes(sender, local[0], sent):
                ask.chosen = local[0].id
        else:
            chosen, providers = self.provider(sender, sent)
            if chosen is None:
                ask.several, ask.present = True, members
            else:
                others = [each for each in recipients if not (each.id in providers or each.server)]
                recipients = [*others, self.sessions[chosen]]
                ask.chosen = None if self.sessions[chosen].server else chosen
                ask.service = service_of(sent)
                asked_itself = chosen == sender.id
        ask.links = {each.id for each in recipients if each.server and self.takes(sender, each, sent)}
        ask.shown = self.shown(ask, fresh)
        copies = {each.id: {**sent, "id": ask.shown} for each in recipients if self.is_shown(ask, each)}
        alone = sent.get("to") is None and not ask.several
        others = self.give(sender, recipients, sent, payload, copies, alone=alone) + asked_itself
        if ask.several:
            able = self.able(sender, sent) if sent.get("to") is None else self.takers(sender, local, sent)
            ask.awaited, ask.forsaken = (able[0] if len(able) == 1 else None), not able
        if others:
            self.remember(ask)
        ask.answered = ask.several and sent.get("to") is None and not self.may_answer(sender, sent)
        return 0 if ask.answered else others

    def takers(self, sender, sessions, sent):
        """Of these sessions the others that take something."""
        return [each.id for each in sessions if each is not sender and self.takes(sender, each, sent)]

    def able(self, sender, sent):
        """Members of this server that may answer: of those who speak as the seeds do, only who has replied before; and
        nobody who names services, for who does registers what it serves."""
        local = [each for each in self.members() if not each.server and each.subscription.get("services") is None]
        return self.takers(sender, [each for each in local if each.vocabulary == "rules" or each.has_replied], sent)

    def may_answer(self, sender, sent):
        servers = [each for each in self.members() if each.server and not each.tells_all]
        return bool(self.able(sender, sent) or self.takers(sender, servers, sent))

    def provider(self, sender, sent):
        """Whose turn it is, of those who can take it, and all that provide the service."""
        name = service_of(sent)
        providers = self.providers.get(name, []) if isinstance(name, str) else []
        able = [each for each in providers if self.takes(sender, self.sessions[each], sent)]
        if not able:
            return None, providers
        turn = self.turns.get(name, 0)
        self.turns[name] = turn + 1
        return able[turn % len(able)], providers

    def shown(self, ask, fresh):
        """The id by which those know it who may answer: another one, if one of them knows its own already."""
        known = [each for each in self.open_asks() if each.is_local]
        same = [each for each in known if identity(each.shown) == identity(ask.sent["id"])]
        if len(same) == 1 and self.is_repeated(same[0], ask):
            ask.older = same[0]
            return ask.sent["id"]
        if not ask.several:
            known = [each for each in known if each.several or each.chosen == ask.chosen]
        if not ask.is_local or identity(ask.sent["id"]) not in [identity(each.shown) for each in known]:
            return ask.sent["id"]
        made = self.another(fresh)
        while identity(made) in [identity(each.shown) for each in self.open_asks() if each.is_local]:
            self.renamed += 1
            made = f"{made}.{self.renamed}"
        return made

    def is_repeated(self, older, ask):
        """Whether a client asks the same of the same several again."""
        if not (older.several and ask.several and older.asker == ask.asker and older.addresses == ask.addresses):
            return False
        is_same_client = older.first == ask.first or not self.sessions[ask.asker].server
        return is_same_client and kind_of(older.sent) == kind_of(ask.sent)

    def another(self, fresh):
        """An id that the server makes."""
        return fresh

    def is_shown(self, ask, member):
        """Whether a member knows the request as those do who may answer; a sender among several sees its own."""
        if ask.several:
            return not member.server and member.id != ask.asker
        return member.id == ask.chosen

    def remember(self, ask):
        """It takes the place of the one that it repeats."""
        self.requests = [older for older in self.requests if older is not ask.older]
        for older in self.requests:
            is_same = identity(older.sent["id"]) == identity(ask.sent["id"]) and older.first == ask.first
            if is_same and older.links & ask.links:
                older.links -= ask.links
                older.answered = True
        self.requests.append(ask)

    def answer_of(self, sender, sent, payload):
        """To who asked, under the id that it used; to nobody, if the sender was not given that request."""
        ask = self.asked_of_link(sender, sent) if sender.server else self.asked_of(sender, sent)
        if ask is None or not self.is_for(ask, sent):
            self.unasked()
            return 0
        ask.answered = True
        sender.has_replied |= sender.server is None and sent["event"].lower() == "services/reply"
        asker = self.sessions[ask.asker]
        same = [each for each in self.open_asks() if each.asker == ask.asker and asker.server]
        same = {each.first for each in same if identity(each.sent["id"]) == identity(ask.sent["id"])}
        if not sender.server:
            sent = {**sent, "in-reply-to": ask.sent["id"]}
        if sent.get("to") is None and len(same) > 1:
            sent = {**sent, "to": ask.first}
        alone = asker.server is not None and sent.get("to") is None
        return self.give(sender, [asker] if asker.subscription is not None else [], sent, payload, alone=alone)

    def unasked(self):
        """Somebody replied to what it was not asked."""

    def asked_of(self, replier, reply):
        found = [ask for ask in self.open_asks() if identity(ask.shown) == identity(reply.get("in-reply-to"))]
        alone = [ask for ask in found if ask.chosen == replier.id]
        given = [ask for ask in found if ask.several and self.was_given(ask, replier)]
        return next(iter(alone + given), None)

    def was_given(self, ask, replier):
        is_addressed = ask.addresses is None or held(replier) & ask.addresses
        asker = self.sessions[ask.asker]
        return replier.id in ask.present and is_addressed and self.takes(asker, replier, {**ask.sent, "route": []})

    def asked_of_link(self, link, reply):
        found = [ask for ask in self.open_asks() if link.id in ask.links]
        found = [ask for ask in found if identity(ask.sent["id"]) == identity(reply.get("in-reply-to"))]
        to = [reply["to"]] if isinstance(reply.get("to"), str) else reply.get("to")
        if to is not None:
            found = [ask for each in reversed(to) for ask in found if ask.first == each]
        return found[-1] if found else None

    def is_for(self, ask, reply):
        asker = self.sessions[ask.asker]
        own = {ask.first} if asker.server else {ask.first} | held(asker)
        return reply.get("to") is None or bool(own & addresses_of(reply))

    def takes(self, sender, member, sent, payload=b"", service=None, *, alone=False):
        if member.subscription is None:
            return False
        is_for_everybody = sent.get("to") is None and not alone
        if is_for_everybody and member.interest and not link_wants(member.interest, sent, payload, service):
            return False
        if not (wants(member.subscription, sent, payload) or has_named(member.subscription, service)):
            return False
        if member.server in sent["route"]:
            return False
        return not (member is sender and member.subscription.get("receive") == "no_echo")

    def give(self, sender, recipients, sent, payload, copies=None, *, alone=False, service=None):
        """:param copies: what some of them are given instead, by session.
        :param alone: whether servers that get it are not to pass it on to others.
        :param service: that it is published on.
        """
        taking = [each for each in recipients if self.takes(sender, each, sent, payload, service, alone=alone)]
        for each in taking:
            copy = (copies or {}).get(each.id, sent)
            marks = self.marks(each, taking, sent["route"], alone=alone)
            each.got.append(frame({**copy, "route": [*copy["route"], *marks]} if marks else copy, payload))
        return sum(each is not sender and not each.tells_all for each in taking)

    def marks(self, server, taking, route, *, alone=False):
        """Who else gets what a linked server is given, if one of the two is route-only."""
        if server.server is None:
            return []
        others = [each for each in taking if each.server is not None and each is not server]
        served = [each.server for each in others if not each.tells_all]
        if server.tells_all:
            return served
        if alone:
            linked = [each.server for each in self.members() if each.server is not None and each is not server]
            return [name for name in linked if name not in route]
        return [*served, *(each.server for each in others if each.tells_all)]

    def publish(self, session_id, service, content_type, payload, app_type, fresh):
        self.to_subscribers(service, app_type, payload)
        sent = {
            "type": content_type,
            "size": len(payload),
            "sender": service,
            "id": fresh,
            "route": [self.sessions[session_id].routing_id, self.server_id],
            "app-type": app_type,
        }
        taking = [each for each in self.members() if self.takes(None, each, sent, payload, service)]
        for each in taking:
            marks = self.marks(each, taking, sent["route"])
            each.got.append(frame({**sent, "route": [*sent["route"], *marks]}, payload))

    def to_subscribers(self, service, app_type, payload):
        self.last[service] = payload
        for each in self.sessions.values():
            if service in each.subscribed and each.kind == "spp":
                each.got.append(spp_info(service, payload))
            elif service in each.subscribed:
                each.got.append(inbus_publish(service, app_type, payload, each.subscribed[service]))


def held(session):
    """The routing ids at which a session is reached."""
    return {session.routing_id, *session.routing_ids}


def addresses_of(fields):
    return {fields["to"]} if isinstance(fields["to"], str) else set(fields["to"])


def service_of(fields):
    return fields.get("name", fields.get("service"))


def kind_of(fields):
    """What subscriptions look at."""
    natures = fields.get("natures") or []
    natures = {each.lower() for each in ([natures] if isinstance(natures, str) else natures)}
    return fields["event"].lower(), bare(fields.get("type") or ""), natures, bool(fields.get("size"))


def identity(request_id):
    """1, 1.0 and true are different ids."""
    return type(request_id).__name__, json.dumps(request_id)
