"""Objects of members as clients write them, or of linked servers, most of them plain: drawn from bytes, for Hypothesis
and for fuzzing.

Whatever the compiled module does not take is among them, at a low rate, so that most of a stream is taken.
"""

from __future__ import annotations

import re

from tests.fuzz.draw import Draw

EVENTS = (b"lamp/on", b"Lamp/On", b"x", b"", b"\xc3\xa4\xc3\xa4ni")
COMMANDS = (
    *(b"services/request", b"services/reply", b"error", b"ping", b"services/register", b"services/unregister"),
    *(b"routing/subscribe", b"routing/disconnect", b"services/list", b"client/register", b"Services/Request"),
)
TYPES = (b"text/plain", b"Text/Plain; charset=UTF-8", b"image/png", b"text/html", b"", b"a" * 300)
NATURES = (b'["spam"]', b"[]", b'["Message", "n"]', b'[ "a" ,"b"]', b'["n"]')
ODD_NATURES = (b'"spam"', b'["a",7]', b'["\\u0061"]')
IDS = (b'"1"', b"1", b'"a:b"', b'"\xc3\xa4"', b"-7", b"0", b"123456789012345678", b'"\\u00e4\\n"', b'"id"')
ODD_IDS = (b"1.5", b"null", b"true", b"1234567890123456789", b"1e3", b"01", b"[]", b'"\\ud83d"', b"-0", b"-")
SENDERS = (b'"tv"', b'"somebody"', b'"radio"', b"null", b'"tv"', b'"tv"')
ODD_SENDERS = (b"7", b'"\\u0074v"')
TO = (b'"r1"', b'["r1","r2"]', b"null", b"7", b'"nobody"', b"[]")
ROUTES = (b'["forged"]', b"[]", b"7")
FORWARDED = (
    *(b'["c1","cellar"]', b'["c1","cellar"]', b'["c2","cellar"]', b'["c3","attic","cellar"]', b'["c5","cellar"]'),
    *(b'["c1","cellar","tower"]', b'["c1","cellar"]', b'["\xc3\xa4","cellar"]', b'["c2","cellar"]', b'["c4","cellar"]'),
)
"""Routes of objects that the server ``cellar`` forwards."""
ODD_FORWARDED = (
    *(
        b'["id","cellar"]',
        b'["cellar"]',
        b'["c1"]',
        b"[]",
        b'["c1","hall","cellar"]',
        b'["c1", "cellar"]',
        b'["\\u0063","cellar"]',
        b'["c1",7]',
        b"7",
    ),
    *(b"[" + b'"s",' * 17 + b'"cellar"]', b"[[[[[[[[[]]]]]]]]]", b'[{"id":1}]', b'["c1"', b'["' + b"r" * 1100 + b'"]'),
    *(
        b'"c1"',
        b'["c1","c1","cellar"]',
        b'["c1","to","cellar"]',
        b"{}",
        b'["c\\"id","cellar"]',
        b"null",
        b'["c1","cellar",]',
    ),
)
KEYS = (b"x", b"name", b"in-reply-to", b"app-type", b"y", b"ID", b"types", b"\xc3\xa4", b"idx", b"Size")
VALUES = (
    *(b"1", b'"text"', b"true", b"null", b"-0.5e+10", b'"\xf0\x9f\x98\x80 \xc3\xa9"', b"[1,2,[3]]", b'{"a":{"b":[]}}'),
    *(b'{"id":"2"}', b'{ "size" : [ 1 , "type" ] }', b'"a:b"', b'"to"', b'"\\n\\t\\"quoted\\" \\/"', b'"\\u0069d"'),
    *(b'"' + b"y" * 150 + b'"', b"[" * 4 + b"]" * 4, b"1e999", b"12345678901234567890", b'["\\u00e4","\xc3\xa4"]'),
    *(
        b'"a\\"id"',
        b'"a\\"id\\""',
        b'"\\\\u0069"',
        b'"\\u0041\\u006a"',
        b'"\\\\"',
        b'"\\"type"',
        b'"\\\\u00e4"',
        b'"\\u007a"',
    ),
    *(b"[]", b"{}", b"[ ]", b"{ }", b'{"a":1,"a":2}', b"false", b'"\x7f"', b"0", b"-1.25E-3"),
)
ODD_VALUES = (
    *(b"tru", b"01", b"1.", b"-", b"+1", b"[1,]", b'{"a"}', b'{"a":1,}', b'"\\x"', b'"\x01"', b'"\\ud800"', b"nan"),
    *(b'"\\ud83d\\ude00"', b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\\u12"', b"'a'", b""),
    *(b"[" * 9 + b"]" * 9, b"[" * 80 + b"]" * 80, b"[}", b"Infinity", b'"unended', b".5", b"1e", b'"\xe0\x9f\xbf"'),
)
ODD_KEYS = (b"\\u0069d", b"a\\n", b"id", b"type", b"route", b"\xff", b"size")
_STRING_ID = re.compile(rb'("id"[ :\t]*)"[^"]*"')
_ID = re.compile(rb'("id"[ :\t]*)("[^"]*"|-?[0-9]+)')
_SIZE = re.compile(rb'("size"[ :\t]*)[0-9]+')
BLANKS = (b" ", b"\n", b"\t \r\n", b"  ")
PAYLOADS = (b"", b"", b"x", b"\0\xff\0", b"payload of some length", b"{}\0{}\0")


def metadata(draw: Draw, payload: bytes) -> bytes:
    """Metadata that says ``size`` if there is a payload."""
    is_odd = draw.chance(16)
    members: list[tuple[bytes, bytes]] = []
    if draw.chance(250 if payload else 220):
        members.append((b"type", b'"%b"' % (draw.one(TYPES) if draw.chance(20) else draw.one(TYPES[:4]))))
    if draw.chance(70):
        members.append((b"event", b'"%b"' % (draw.one(COMMANDS) if draw.chance(40) else draw.one(EVENTS))))
    if draw.chance(245):
        members.append((b"id", draw.one(ODD_IDS) if is_odd and draw.chance(60) else draw.one(IDS)))
    if payload or draw.chance(20):
        members.append((b"size", b"%d" % len(payload)))
    if draw.chance(30):
        members.append((b"natures", draw.one(ODD_NATURES if draw.chance(24) else NATURES)))
    if draw.chance(40):
        members.append((b"sender", draw.one(ODD_SENDERS if draw.chance(24) else SENDERS)))
    members += {draw.one(KEYS): draw.one(VALUES) for _ in range(draw.byte() % 4)}.items()
    if draw.chance(12):
        members += [(b"k%d" % (number % 45), draw.one(VALUES)) for number in range(40 + draw.byte() % 8)]
    if is_odd:
        members.append(_oddity(draw))
    for _ in range(draw.byte() % 3):
        # Turned round by some places: attributes come in any order.
        members = members[1:] + members[:1]
    return _written(draw, members, is_odd)


def _oddity(draw: Draw) -> tuple[bytes, bytes]:
    return draw.one(
        (
            (b"to", draw.one(TO)),
            (b"route", draw.one(ROUTES)),
            (draw.one(ODD_KEYS), draw.one(VALUES)),
            (draw.one(KEYS), draw.one(ODD_VALUES)),
            (b"event", draw.one((b"null", b"7", b'"\\u0078"', b'["x"]'))),
            (b"type", draw.one((b"null", b"7", b'"text\\/plain"'))),
            (b"size", draw.one((b"-1", b'"2"', b"2.0", b"99999999999999999999", b"41", b"00", b"null", b"0"))),
        )
    )


def _written(draw: Draw, members: list[tuple[bytes, bytes]], is_odd: bool) -> bytes:
    """As clients write JSON: compact, as Python does it by default, or with blanks anywhere."""
    comma, colon = draw.one(((b",", b":"), (b",", b":"), (b", ", b": "), (b" ,\n", b" :\t")))
    text = comma.join(b'"%b"%b%b' % (key, colon, value) for key, value in members)
    first, last = (draw.one(BLANKS), draw.one(BLANKS)) if draw.chance(8) else (b"", b"")
    before, after = (draw.one(BLANKS), draw.one(BLANKS)) if is_odd and draw.chance(50) else (b"", b"")
    return before + b"{" + first + text + last + b"}" + after


def _forwarded(draw: Draw, metadata: bytes) -> bytes:
    """Metadata with a route, mostly at its end, as servers write it. The id ``#`` stands for one that may be new."""
    if draw.chance(230):
        metadata = _STRING_ID.sub(rb'\1"#"', metadata, count=1)
    route = draw.one(ODD_FORWARDED) if draw.chance(16) else draw.one(FORWARDED)
    if draw.chance(8):
        return metadata.replace(b"{", b'{"route":%b,' % route, 1)
    form = b', "route":%b}' if draw.chance(5) else b',"route":%b}'
    return metadata.removesuffix(b"}") + form % route


def frame(draw: Draw, is_forwarded: bool = False) -> bytes:
    """An object; now and then some of its bytes are others, or missing."""
    payload = draw.one(PAYLOADS)
    said = metadata(draw, payload)
    data = (_forwarded(draw, said) if is_forwarded else said) + b"\0" + payload
    if draw.chance(5):
        place = draw.byte() % len(data)
        data = data[:place] + draw.bytes(3) + data[place + 1 :]
    return data


def alike(draw: Draw, data: bytes) -> bytes:
    """The same object with another id or size; now and then one that is not sound, or with other bytes elsewhere."""
    said, nul, payload = data.partition(b"\0")
    if draw.chance(8 if b'"#"' in said else 240):
        other = draw.one(ODD_IDS) if draw.chance(4) else draw.one((*IDS, b'"%d"' % draw.byte(), b"%d" % draw.byte()))
        said = _ID.sub(lambda found: found[1] + other, said, count=1)
    if draw.chance(100):
        other_payload = draw.one(PAYLOADS)
        size = b"%d" % len(other_payload) if not draw.chance(4) else draw.one((b"2.0", b"01", b"-1", b"99999", b"0"))
        said, found = _SIZE.subn(lambda found: found[1] + size, said, count=1)
        payload = other_payload if found else payload
    data = said + nul + payload
    if draw.chance(2):
        place = draw.byte() % len(data)
        data = data[:place] + draw.bytes(2) + data[place + 1 :]
    return data


def stream(draw: Draw, most: int, is_forwarded: bool = False) -> bytes:
    """Some objects; some of them many times, and some again and again with other ids and sizes, as clients send them.

    :param is_forwarded: whether the server ``cellar`` sends them.
    """
    frames: list[bytes] = []
    for _ in range(1 + draw.byte() % most):
        some = [frame(draw, is_forwarded) for _ in range(1 if draw.chance(200) else 1 + draw.byte() % 3)]
        if draw.chance(220):
            frames += some
        elif draw.chance(128):
            frames += some * (1 + draw.byte() % 40)
        else:
            frames += [alike(draw, each) for _ in range(1 + draw.byte() % 12) for each in some]
    if is_forwarded:
        first = draw.byte()
        frames = [each.replace(b'"#"', b'"%d"' % number) for number, each in enumerate(frames, first)]
    return b"".join(frames)
