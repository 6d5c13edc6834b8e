"""Deliberately broken plugins: the format of the page for authors, each with one fault, and what the kit has to say."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.docs.pages import blocks
from tests.testing.conformance.lines import PAGE


class Fault(NamedTuple):
    """:ivar old: what stands on the page. :ivar new: what stands there instead. :ivar words: of the sentence."""

    name: str
    old: str
    new: str
    promise: str
    words: str


READ = 'line = self.buffer.take(end + 1).decode("utf-8", "replace").strip()'
FORMAT = '    FORMAT = "lines"\n'
SUBSCRIBE = "        await self.subscribe(name)\n        state = self.state_of(name)\n"
ENCODED = 'return b"%s %s\\n" % (publication.service.encode(), publication.payload.replace(b"\\n", b" "))'
TOLD = "            self.say(refusal.message)\n"
LOG_IN = "        await self.log_in(Password(user, secret.encode()))\n"
READER = "class LineReader(StreamReader):\n"
OWN_BUFFER = (
    READER
    + '    kept = b""\n'
    + "    def feed(self, data):\n        self.kept += data\n"
    + "    def __len__(self):\n        return 0\n"
)


def longer_reader(method: str) -> str:
    """Lines may be long, and the buffer has another method."""
    return (
        "BaseReader, BaseBuffer = StreamReader, type(StreamReader().buffer)\n"
        f"class Buffer(BaseBuffer):\n    {method}\n"
        "class StreamReader(BaseReader):\n"
        "    def __init__(self):\n        super().__init__()\n        self.buffer = Buffer()\n"
    )


def hooked(code: str) -> str:
    """The class with one more method."""
    return FORMAT + "\n".join(f"    {line}" for line in code.splitlines()) + "\n"


def following(kind: str, then: str) -> str:
    """Each client does something when the registry changes."""
    return (
        "def opened(self):\n"
        f"    from bussrv.plugin import EVERYTHING, IRegistryObserver, {kind}\n"
        "    protocol, bus, registry = self, self._bus, self._bus.registry\n"
        "    @implementer(IRegistryObserver)\n"
        "    class Following:\n"
        "        def registry_changed(self, stamped):\n"
        f"            service = stamped.event.service\n            {then}\n"
        f"    registry.observe(Following(), {{{kind}}})"
    )


FAULTS = (
    # Input.
    Fault(
        "the rest of a chunk is dropped",
        READ,
        READ.replace("take(end + 1)", "take(len(self.buffer))[: end + 1]"),
        "messages-may-come-at-once",
        "with all messages in one chunk",
    ),
    Fault(
        "a chunk is taken for a message",
        READER,
        READER + "    def feed(self, data):\n        self.buffer.take(len(self.buffer))\n        super().feed(data)\n",
        "input-may-be-cut-anywhere",
        "sent byte by byte",
    ),
    Fault(
        "one reader serves all clients",
        "        return LineReader()",
        "        self.factory_reader = READERS.setdefault(0, LineReader())\n        return self.factory_reader",
        "clients-do-not-mix",
        "while another client sends a message",
    ),
    Fault(
        "input that is no text fails",
        READ,
        READ.replace('"utf-8", "replace"', ""),
        "garbage-harms-nobody",
        "UnicodeDecodeError",
    ),
    Fault(
        "a command fails that nobody expected",
        'serve = {"SUB": self.sub, "PUB": self.pub, "LOGIN": self.login}.get(command)',
        'serve = {"SUB": self.sub, "PUB": self.pub, "LOGIN": self.login}[command]',
        "garbage-harms-nobody",
        "KeyError",
    ),
    Fault(
        "unfinished input is kept where nobody counts it",
        READER,
        OWN_BUFFER,
        "unfinished-input-is-limited",
        "clients that never finish a message hold",
    ),
    Fault(
        "the words of a line are kept where nobody counts them",
        READER,
        READER
        + "    def feed(self, data):\n"
        + "        *words, rest = (self.buffer.take(len(self.buffer)) + data).split(b' ')\n"
        + "        self.words = [*getattr(self, 'words', ()), *words]\n"
        + "        super().feed(rest)\n",
        "unfinished-input-is-limited",
        "clients that never finish a message hold",
    ),
    Fault(
        "strangers may send as much as they like",
        READER,
        OWN_BUFFER,
        "strangers-send-little",
        "a client that has not logged in is still connected",
    ),
    Fault(
        "the end of a line is searched from its beginning",
        "MAX_LINE = 1000\n",
        "MAX_LINE = 1 << 22\n"
        + longer_reader("def find(self, byte, limit):\n        return self.peek(limit).find(byte)"),
        "work-grows-with-a-message",
        "in pieces of 512, takes",
    ),
    Fault(
        "the bytes of a line are looked at one by one",
        "MAX_LINE = 1000\n",
        "MAX_LINE = 1 << 22\n"
        + longer_reader(
            "def find(self, byte, limit):\n"
            "        return next((i for i, each in enumerate(self.peek(limit)) if chr(each) == byte.decode()), -1)"
        ),
        "work-grows-with-a-message",
        "in pieces of 16, takes",
    ),
    Fault(
        "all lines are looked at for each of them",
        READ,
        "rest = self.buffer.peek(len(self.buffer)); [each.strip() for each in rest.splitlines()]; " + READ,
        "work-grows-with-the-number-of-messages",
        "with each message, the format looks",
    ),
    Fault(
        "a piece of a message is taken for a message",
        READER,
        READER + "    def feed(self, data):\n        self.buffer.take(len(self.buffer))\n        super().feed(data)\n",
        "odd-input-means-the-same-in-pieces",
        "pieces: what it is told differs",
    ),
    Fault(
        "clients are remembered",
        FORMAT,
        hooked("def opened(self):\n    READERS[id(self)] = self"),
        "odd-input-leaves-nothing",
        "and has gone, and its connection is still in memory",
    ),
    Fault(
        "for each message much is kept",
        "        command, name, text = event\n",
        "        command, name, text = event\n        READERS[len(READERS)] = b'x' * 300_000\n",
        "odd-input-takes-little-memory",
        "bytes, for which the server holds",
    ),
    Fault(
        "each message is logged",
        "        command, name, text = event\n",
        "        command, name, text = event\n        Logger().info('{line}', line=f'{command} {name} {text}')\n",
        "odd-input-fills-neither-log-nor-journal",
        "from one address are 240 lines of the log",
    ),
    # The life of sessions.
    Fault(
        "a timer is not cancelled",
        FORMAT,
        hooked("def opened(self):\n    self.reactor.callLater(60, self.say, 'hello?')"),
        "nothing-is-left-of-a-client",
        "timers are left",
    ),
    Fault(
        "connections are remembered",
        FORMAT,
        hooked("def opened(self):\n    READERS[id(self)] = self"),
        "nothing-is-left-of-a-client",
        "still held in memory",
    ),
    Fault(
        "sessions are not closed",
        FORMAT,
        hooked("def close_session(self, reason):\n    pass"),
        "sessions-open-once-and-close-once",
        "were not closed once",
    ),
    Fault(
        "the hook for the end fails",
        FORMAT,
        hooked("def closed(self, reason):\n    self.timer.cancel()"),
        "sessions-open-once-and-close-once",
        "has no attribute 'timer'",
    ),
    Fault(
        "a half-closed connection is cut",
        FORMAT,
        hooked("def readConnectionLost(self):\n    self.transport.abortConnection()"),
        "a-half-closed-client-is-served",
        "a client that closed its side after a subscription is told []",
    ),
    Fault(
        "a session that is ended stays",
        FORMAT,
        hooked("def evict(self, reason):\n    self.say(reason)"),
        "a-session-that-is-ended-is-over",
        "its connection is still open",
    ),
    Fault(
        "clients are not sent away by a drain",
        FORMAT,
        hooked("def evict(self, reason):\n    self.say(reason)"),
        "a-port-drains-in-time",
        "are still connected after a drain",
    ),
    Fault(
        "a port that drains takes clients",
        "    return StreamListener(",
        "    class Open(StreamListener):\n        def stop_listening(self):\n            pass\n    return Open(",
        "a-port-drains-in-time",
        "still takes connections",
    ),
    Fault(
        "the port has a timer of its own that nobody stops",
        "    return StreamListener(",
        "    def tick():\n        reactor.callLater(1, tick)\n    tick()\n    return StreamListener(",
        "a-stop-ends-everything",
        "timers are left after the stop",
    ),
    Fault(
        "the limit of sessions is passed by",
        FORMAT,
        hooked("is_admitted = True"),
        "sessions-are-limited",
        "with a limit of 3 sessions, 5 of 5 clients",
    ),
    Fault(
        "the registry is changed past the journal",
        '        self.say(f"subscribed to {name}")\n',
        '        self.say(f"subscribed to {name}")\n'
        "        self._bus.registry.state.services.setdefault(name, {})[self.session_id] = 1\n",
        "the-journal-is-the-registry",
        "the registry says something else than the journal",
    ),
    Fault(
        "a session stays whose connection broke during a change",
        FORMAT,
        hooked("def connectionLost(self, why):\n    if not self.is_busy:\n        super().connectionLost(why)"),
        "a-connection-may-break-at-any-time",
        "1 sessions are left of a connection that broke at its message",
    ),
    Fault(
        "a timer of a silent client is not cancelled",
        FORMAT,
        hooked("def opened(self):\n    self.reactor.callLater(500, self.gone)"),
        "silent-clients-harm-nobody",
        "timers are left after silent clients have left",
    ),
    # Publications.
    Fault(
        "letters become capitals",
        ENCODED,
        ENCODED.replace(".replace(", ".upper().replace("),
        "publications-stay-the-same-within-the-format",
        "published over lines and received over lines, came as b'OMEGA",
    ),
    Fault(
        "what a client publishes is sent one too late",
        "        self.publish(Publication(",
        "        text, READERS[0] = READERS.get(0, ''), text\n        self.publish(Publication(",
        "own-publications-keep-their-order",
        "of 100 publications, published by a client in one chunk, the 1th is",
    ),
    Fault(
        "a subscription ends with its service",
        FORMAT,
        hooked(following("ServiceUnregistered", "registry.lose_subscription(protocol.session_id, service, 'gone')")),
        "a-subscription-outlives-its-service",
        "when a service comes again, its subscriber is given []",
    ),
    Fault(
        "a client takes services of others with it",
        FORMAT,
        hooked("def closed(self, reason):\n    self._bus.registry.state.services.clear()"),
        "a-service-may-have-several-providers",
        "a service with another provider is gone with a client that provided it",
    ),
    Fault(
        "nothing that waits for a client is counted",
        FORMAT,
        hooked("def personal(self, frame):\n    self.transport.write(frame)\n    return b''"),
        "all-that-waits-is-counted",
        "bytes wait for slow clients, although the limit for all is",
    ),
    Fault(
        "publications come twice",
        ENCODED,
        f"{ENCODED} * 2",
        "publications-come-from-every-other-format",
        "came 2 times",
    ),
    Fault(
        "payloads are changed",
        ENCODED,
        ENCODED.replace(".replace(", ".upper().replace("),
        "publications-come-from-every-other-format",
        "came as b'OMEGA",
    ),
    Fault(
        "empty payloads are left out",
        "        if publication is None:",
        "        if publication is None or not publication.payload:",
        "publications-come-from-every-other-format",
        "an empty payload, published over objects and received over lines, came not at all",
    ),
    Fault(
        "payloads are taken for ASCII",
        ENCODED,
        ENCODED.replace("publication.payload.", "publication.payload.decode('ascii').encode()."),
        "publications-come-from-every-other-format",
        "UnicodeDecodeError",
    ),
    Fault(
        "blanks of what is published get lost",
        "text.encode()",
        "text.replace(' ', '').encode()",
        "publications-reach-every-other-format",
        "published over lines",
    ),
    Fault(
        "each publication is sent one too late",
        ENCODED,
        "late, READERS[0] = READERS.get(0), " + ENCODED.removeprefix("return ") + "\n        return late",
        "publications-keep-their-order",
        "of 100 publications",
    ),
    Fault(
        "letter case is lost",
        '        command, _, rest = line.partition(" ")\n        name, _, text = rest.partition(" ")\n',
        '        command, _, rest = line.partition(" ")\n        name, _, text = rest.partition(" ")\n'
        "        name = name.lower()\n",
        "names-of-services-stay-as-they-are",
        "a subscriber of 'Door' is given [('door', b'other')]",
    ),
    Fault(
        "there is no state",
        "        if state:\n",
        "        if False:\n",
        "a-subscriber-first-gets-the-state",
        "a new subscriber is given []",
    ),
    Fault(
        "the state is sent twice",
        "            self.send([LINES.encode(first)])",
        "            self.send([LINES.encode(first)] * 2)",
        "a-subscriber-first-gets-the-state",
        "is given [b'open', b'open']",
    ),
    Fault(
        "the state is older than the subscription",
        SUBSCRIBE,
        "        state = self.state_of(name)\n        await self.subscribe(name)\n",
        "nothing-is-lost-between-state-and-update",
        "a publication during a subscription came as [b'shut']",
    ),
    Fault(
        "frames are written past the link",
        FORMAT,
        hooked("def personal(self, frame):\n    self.transport.write(frame)\n    return b''"),
        "a-slow-reader-holds-nobody-up",
        "writes past its link",
    ),
    # The write-ahead rule.
    Fault(
        "a subscription is confirmed too early",
        "        await self.subscribe(name)\n",
        "        self.say(f'subscribed to {name}')\n        await self.subscribe(name)\n",
        "a-subscription-waits-for-the-disk",
        "before its subscription is durable",
    ),
    Fault(
        "a service is confirmed too early",
        "        await self.provide(name)\n",
        "        self.say('subscribed to it')\n        await self.provide(name)\n",
        "a-service-waits-for-the-disk",
        "before its service is durable",
    ),
    Fault(
        "nobody waits for a change",
        "self.busy_with(self.answer(serve(name, text)))",
        "Deferred.fromCoroutine(self.answer(serve(name, text)))",
        "later-input-waits",
        "a publication is served while a new service, for which its client asked before it",
    ),
    Fault(
        "nobody waits for a subscription",
        "self.busy_with(self.answer(serve(name, text)))",
        "(Deferred.fromCoroutine if command == 'SUB' else self.busy_with)(self.answer(serve(name, text)))",
        "later-input-waits",
        "a publication is served while a subscription, for which its client asked before it",
    ),
    Fault(
        "whoever is subscribed may not publish",
        "        await self.provide(name)\n",
        "        if self.link and self._bus.registry.state.subscribed_by(self.session_id):\n"
        "            raise Refused('not-allowed', 'subscribed')\n"
        "        await self.provide(name)\n",
        "later-input-waits",
        "a subscriber over objects is given [] instead of [b'on']",
    ),
    Fault(
        "the connection is read during a change",
        "self.busy_with(self.answer(serve(name, text)))",
        "Deferred.fromCoroutine(self.answer(serve(name, text)))",
        "waiting-clients-are-not-read",
        "the server read all but",
    ),
    Fault(
        "a full disk is taken for a success",
        TOLD,
        "            self.say('subscribed to it')\n",
        "a-change-that-is-not-written-is-refused",
        "the disk is full, and a client is told",
    ),
    Fault(
        "a withdrawn permission is taken for a success",
        TOLD,
        "            self.say('subscribed to it')\n",
        "a-permission-may-go-while-a-change-is-written",
        "a permission was withdrawn during a change",
    ),
    # Rights.
    Fault(
        "the registry is asked past the policy",
        "        await self.subscribe(name)\n",
        "        await self._bus.registry.subscribe(self.session_id, name)\n",
        "a-denied-subscription-gives-nothing",
        "a client that may not watch a service is given [b'shut']",
    ),
    Fault(
        "the state is sent before the permission is asked",
        SUBSCRIBE,
        "        self.send([b'%s %s\\n' % (name.encode(), self._bus.last(name, self.permissions()))])\n" + SUBSCRIBE,
        "a-denied-subscription-gives-nothing",
        "a client that may not watch a service is given",
    ),
    Fault(
        "a denial is taken for a success",
        TOLD,
        "            self.say('subscribed to it')\n",
        "a-denied-service-is-not-provided",
        "providing a service is denied, and the client is told",
    ),
    Fault(
        "the end of a subscription shows the state once more",
        FORMAT,
        hooked(following("SubscriptionRemoved", "protocol.send([b'door ' + bus.last(service, EVERYTHING) + b'\\n'])")),
        "a-withdrawn-permission-ends-a-subscription",
        "a client that may not watch a service any more is given [b'shut'] on it",
    ),
    Fault(
        "a client publishes in the name of another one",
        "        self.publish(Publication(",
        "        self._bus.publish([*self._bus.registry.state.services[name]][0], Publication(",
        "a-denied-publication-reaches-nobody",
        "reaches a subscriber",
    ),
    Fault(
        "a refusal ends the session",
        TOLD,
        f"{TOLD}            self.end('refused')\n",
        "a-refusal-ends-nothing",
        "the connection is closed",
    ),
    Fault(
        "a refusal is not told",
        TOLD,
        "            pass\n",
        "a-refusal-ends-nothing",
        "not one refusal",
    ),
    Fault(
        "a stranger is told that it is subscribed",
        TOLD,
        "            self.say('subscribed to it')\n",
        "strangers-get-nothing",
        "a client that has not logged in subscribes, and is told",
    ),
    Fault(
        "a login is confirmed before it is checked",
        LOG_IN,
        "        self.say(f'you are {user}')\n" + LOG_IN,
        "wrong-secrets-get-nothing",
        "a client with a wrong secret is told",
    ),
    Fault(
        "nobody logs in",
        LOG_IN,
        "",
        "right-secrets-let-in",
        "the registry has no session of that user",
    ),
    Fault(
        "secrets can be guessed for ever",
        FORMAT,
        hooked(
            "def end(self, reason, most=None):\n    return super().end(reason) if 'login' in reason else self.gone()"
        ),
        "guesses-end",
        "is still connected after 4 wrong secrets",
    ),
    Fault(
        "secrets are logged",
        "        command, name, text = event\n",
        "        command, name, text = event\n        Logger().info('{line}', line=f'{command} {name} {text}')\n",
        "secrets-stay-secret",
        "the secret of a login is in the log",
    ),
    Fault(
        "bad names are made to fit",
        '        name, _, text = rest.partition(" ")\n',
        "        name, _, text = rest.partition(\" \")\n        name = name.replace('\\x01', '')[:255]\n",
        "bad-names-stay-outside",
        "which is not allowed, a client is told",
    ),
    Fault(
        "services are provided past the limit",
        "        await self.provide(name)\n",
        "        self._bus.registry.state.services[name] = {self.session_id: 1}\n",
        "services-are-limited",
        "with a limit of 2 services, a client that asks for 3 provides 3",
    ),
    Fault(
        "the limit of subscriptions is not told",
        TOLD,
        "            self.say('subscribed to it')\n",
        "subscriptions-are-limited",
        "asks for another one and is told",
    ),
)


def broken_source(fault: Fault) -> str:
    """The module on the page with a fault."""
    (source,) = (each for each in blocks(PAGE, "python") if "class LinesProtocol" in each)
    assert source.count(fault.old) == 1, f"{fault.name}: what it changes is not on the page"
    changed = source.replace(fault.old, fault.new)
    return "from twisted.internet.defer import Deferred\nfrom twisted.logger import Logger\n" + changed


def module_with(fault: Fault) -> dict[str, Any]:
    """That module, made."""
    module: dict[str, Any] = {"__name__": "lines_format", "READERS": {}}
    exec(broken_source(fault), module)
    return module
