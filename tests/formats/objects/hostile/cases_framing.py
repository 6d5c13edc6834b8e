"""What is wrong with the bytes or with the JSON: the framing that both vocabularies share."""

from __future__ import annotations

from tests.formats.objects.hostile.rows import MAX_METADATA, MAX_NESTING, Closed, Dropped, Routed, Row, obj, text

TYPE = b'"type":"text/plain"'


def _closed(reason: str, table: dict[str, bytes], member: bool = True) -> tuple[Row, ...]:
    return tuple(Row(name, data, Closed(reason), member) for name, data in table.items())


def _sized(size: str) -> bytes:
    return b'{"type":"text/plain","size":%b}\0' % size.encode()


BAD_UTF8 = _closed(
    "bad-utf8",
    {
        "UTF-8 that ends in the middle of a character": b'{"x":"\xe2\x82"}\0',
        "UTF-8 that ends in the middle of a character, at the end of the metadata": b'{"x":1}\xc3\0',
        "UTF-8 that is longer than need be": b'{"x":"\xc0\xaf"}\0',
        "NUL in two bytes, as Java writes it": b'{"x":"\xc0\x80"}\0',
        "a surrogate in UTF-8": b'{"x":"\xed\xa0\x80"}\0',
        "a pair of surrogates in UTF-8": b'{"x":"\xed\xa0\xbd\xed\xb8\x80"}\0',
        "a character beyond the last one": b'{"x":"\xf4\x90\x80\x80"}\0',
        "a character of five bytes": b'{"x":"\xf8\x88\x80\x80\x80"}\0',
        "a stray continuation byte": b'{"x":"\x80"}\0',
        "bytes FF and FE in a key": b'{"\xff\xfe":1}\0',
        "Latin-1": '{"event":"Grüße"}\0'.encode("latin-1"),
        "UTF-16": b"\xff\xfe{\0}\0",
        "the first half of a pair, escaped": rb'{"x":"\ud83d"}' + b"\0",
        "the second half of a pair, escaped": rb'{"x":"\ude00"}' + b"\0",
        "two first halves, escaped": rb'{"x":"\ud83d\ud83d"}' + b"\0",
        "the halves of a pair in the wrong order": rb'{"x":"\ude00\ud83d"}' + b"\0",
        "half of a pair in a key": rb'{"\ud83d":1}' + b"\0",
        "half of a pair deep inside": rb'{"x":[{"y":["\ud83dx"]}]}' + b"\0",
        "half of a pair in the event": rb'{"event":"a\udfff"}' + b"\0",
        "half of a pair in the type of a payload": rb'{"type":"\udfff","size":1}' + b"\0x",
        "half of a pair in the name of a service": rb'{"event":"services/register","name":"\ud800"}' + b"\0",
    },
)

BAD_JSON = _closed(
    "bad-json",
    {
        "no metadata": b"\0",
        "NULs": b"\0" * 100,
        "only whitespace": b" \t\r\n \0",
        "a byte order mark": b"\xef\xbb\xbf{}\0",
        "a byte order mark, encoded twice": "\u00ef\u00bb\u00bf{}".encode() + b"\0",
        "whitespace that JSON does not know": "\u00a0{}".encode() + b"\0",
        "a comma behind the last member": b'{"x":1,}\0',
        "a comma behind the last item": b'{"x":[1,]}\0',
        "two commas": b'{"x":1,,"y":2}\0',
        "no comma": b'{"x":1 "y":2}\0',
        "no colon": b'{"x" 1}\0',
        "no value": b'{"x":}\0',
        "no closing brace": b'{"x":1\0',
        "a key without quotation marks": b"{x:1}\0",
        "a number for a key": b"{1:1}\0",
        "single quotation marks": b"{'x':1}\0",
        "NaN": b'{"x":NaN}\0',
        "Infinity": b'{"x":Infinity}\0',
        "minus Infinity": b'{"x":-Infinity}\0',
        "NaN for a size": _sized("NaN"),
        "a comment": b'{"x":1/* one */}\0',
        "a comment to the end of the line": b'{"x":1}// one\n\0',
        "a tab in a string": b'{"x":"\t"}\0',
        "an escape character in a string": b'{"x":"\x1b[2J"}\0',
        "an unknown escape": rb'{"x":"\x41"}' + b"\0",
        "an escape of three digits": rb'{"x":"\u004"}' + b"\0",
        "a string without an end": b'{"x":"abc\0',
        "a string that ends with a backslash": b'{"x":"abc\\\0',
        "a leading zero": b'{"x":007}\0',
        "a hexadecimal number": b'{"x":0x7}\0',
        "a plus sign": b'{"x":+7}\0',
        "a fraction without digits": b'{"x":7.}\0',
        "a number that begins with its point": b'{"x":.7}\0',
        "an exponent without digits": b'{"x":7e}\0',
        "True, as Python writes it": b'{"x":True}\0',
        "undefined": b'{"x":undefined}\0',
        "two values": b"{}{}\0",
        "two values, apart": b'{"x":1} {"x":2}\0',
        "something behind the value": b"{}x\0",
        "HTTP": b"GET / HTTP/1.1\r\nHost: bus\r\n\r\n\0",
        "the greeting of TLS": b"\x16\x03\x01\x02\0",
        "more closed than opened": b'{"x":1}}\0',
        "the wrong kind of bracket": b'{"x":[1}\0',
    },
)

NOT_AN_OBJECT = _closed(
    "not-an-object",
    {
        "an array": b"[]\0",
        "an array of objects": b'[{"event":"ping"}]\0',
        "a string": b'"ping"\0',
        "a number": b"7\0",
        "null": b"null\0",
        "true": b"true\0",
    },
)

BAD_SIZE = _closed(
    "bad-size",
    {
        "a negative size": _sized("-1"),
        "a negative size beyond 64 bits": _sized(str(-(2**64))),
        "a size with a fraction": _sized("1.0"),
        "a size of minus zero with a fraction": _sized("-0.0"),
        "a size with an exponent": _sized("1e3"),
        "a size beyond every double": _sized("1e400"),
        "a size that is a string": _sized('"1"'),
        "a size that is null": _sized("null"),
        "a size that is a boolean": _sized("true"),
        "a size that is an array": _sized("[1]"),
        "a size that is an object": _sized("{}"),
        "a size twice, of which the last is wrong": b'{"type":"text/plain","size":1,"size":-1}\0x',
    },
)

PAYLOAD_TOO_LARGE = _closed(
    "payload-too-large",
    {
        f"a size of {name}": _sized(str(size))
        for name, size in {
            "one byte too many": (16 << 20) + 1,
            "2**31": 2**31,
            "2**32": 2**32,
            "2**32 and one, which 32 bits take for 1": 2**32 + 1,
            "2**63-1": 2**63 - 1,
            "2**63": 2**63,
            "2**64": 2**64,
            "2**64 and one, which 64 bits take for 1": 2**64 + 1,
            "10**400": 10**400,
        }.items()
    }
    | {
        "a size that is too large, and the payload": _sized(str(1 << 30)) + b"x" * 4096,
        "a size twice, of which the last is too large": b'{"type":"text/plain","size":1,"size":99999999}\0x',
    },
)

METADATA_TOO_LARGE = (
    Row("metadata that never ends", lambda _: b"x" * (MAX_METADATA + 1), Closed("metadata-too-large")),
    Row("a string that never ends", lambda _: b'{"x":"' + b"a" * MAX_METADATA, Closed("metadata-too-large")),
    Row("nothing but spaces", lambda _: b" " * (MAX_METADATA + 1), Closed("metadata-too-large")),
    Row("brackets without end", lambda _: b"[" * (MAX_METADATA + 1), Closed("metadata-too-large")),
    Row("bytes that are no text, without end", lambda _: b"\xff" * (MAX_METADATA + 1), Closed("metadata-too-large")),
    Row("metadata of one byte too many", lambda _: padded(MAX_METADATA + 1), Closed("metadata-too-large")),
    Row("metadata of twice the limit", lambda _: padded(2 * MAX_METADATA), Closed("metadata-too-large")),
    Row("ten thousand keys", lambda _: keys(10_000), Closed("metadata-too-large")),
    Row("metadata that never ends, before joining", lambda _: b"x" * 65537, Closed("metadata-too-large"), False),
)


def padded(size: int) -> bytes:
    """An object with metadata of ``size`` bytes."""
    return b'{"x":"%b"}\0' % (b"a" * (size - len('{"x":""}')))


def keys(count: int) -> bytes:
    """An object with so many different keys."""
    return text({f"{number:x}": 0 for number in range(count)}) + b"\0"


def nested(opening: str, closing: str, levels: int, inmost: str = "") -> bytes:
    """An object with a value that nests, together with the object itself, ``levels`` deep."""
    return f'{{"x":{opening * (levels - 1)}{inmost}{closing * (levels - 1)}}}\0'.encode()


def _behind_brackets(levels: int) -> bytes:
    return b'{"s":"]]]]\\"]]]]","x":%b%b}\0' % (b"[" * (levels - 1), b"]" * (levels - 1))


TOO_DEEP = (
    *_closed(
        "nesting-too-deep",
        {
            "arrays, one level too deep": nested("[", "]", MAX_NESTING + 1),
            "objects, one level too deep": nested('{"x":', "}", MAX_NESTING + 1, "0"),
            "arrays and objects in turn, too deep": nested('[{"x":', "}]", MAX_NESTING // 2 + 2, "0"),
            "arrays that are never closed": b'{"x":' + b"[" * 100 + b"\0",
            "what is too deep behind a string full of brackets": _behind_brackets(65),
            "an array instead of an object, too deep": b"[" * 65 + b"]" * 65 + b"\0",
        },
    ),
    Row("arrays, thirty thousand deep", lambda _: nested("[", "]", 30_000), Closed("nesting-too-deep")),
    Row("objects, ten thousand deep", lambda _: nested('{"":', "}", 10_000, "0"), Closed("nesting-too-deep")),
    Row("sixty thousand open brackets", lambda _: b'{"x":' + b"[" * 60_000 + b"\0", Closed("nesting-too-deep")),
)

BEFORE_JOINING = (
    *_closed("bad-utf8", {"bad UTF-8 before joining": b'{"x":"\xff"}\0'}, member=False),
    *_closed("bad-json", {"bad JSON before joining": b"{\0"}, member=False),
    *_closed("not-an-object", {"an array before joining": b"[]\0"}, member=False),
    *_closed("bad-size", {"a bad size before joining": _sized("-1")}, member=False),
    *_closed("payload-too-large", {"a large payload before joining": _sized("99999999")}, member=False),
    *_closed("nesting-too-deep", {"deep nesting before joining": nested("[", "]", 70)}, member=False),
    Row("content before joining", obj(b"hello", type="text/plain"), Dropped(), False),
    Row("a wrong attribute before joining", obj(b"hello", event=7, id="h"), Dropped(), False),
    Row("a service before joining", obj(event="services/register", name="hall", id="h"), Dropped(), False),
    Row("what only servers send before joining", obj(event="routing/disconnect", id="h"), Dropped(), False),
    Row("many objects before joining", obj(event="x") * 1000, Dropped(), False),
)

LEGAL = (
    Row("an empty object", b"{}\0", Routed()),
    Row("whitespace all around", b' \n{ "x" :\t1 } \r\0', Routed()),
    Row("a size of minus zero", b"{" + TYPE + b',"size":-0}\0', Routed()),
    Row("a size twice, of which the last counts", b"{" + TYPE + b',"size":9,"size":2}\0ab', Routed()),
    Row("a size twice, of which the first is wrong", b"{" + TYPE + b',"size":"9","size":2}\0ab', Routed()),
    Row("a size in escapes", b"{" + TYPE + rb',"\u0073ize":2}' + b"\0ab", Routed()),
    Row("a payload of NULs", obj(b"\0" * 100, type="text/plain"), Routed()),
    Row("a payload that looks like an object", obj(b'{"event":"forged"}\0', type="text/plain"), Routed()),
    Row("a payload that is no UTF-8", obj(b"\xff\xfe\xed\xa0\x80", type="text/plain"), Routed()),
    Row("arrays, as deep as may be", nested("[", "]", MAX_NESTING), Routed()),
    Row("objects, as deep as may be", nested('{"x":', "}", MAX_NESTING, "0"), Routed()),
    Row("brackets inside a string", b'{"x":"%b"}\0' % (b"[{" * 5000), Routed()),
    Row("brackets behind an escaped quotation mark", b'{"x":"\\"%b\\\\"}\0' % (b"[" * 100), Routed()),
    Row("what nests as deep as may be behind a string full of brackets", _behind_brackets(64), Routed()),
    Row("brackets in a key", b'{"%b":1}\0' % (b"]}" * 100), Routed()),
    Row("a thousand small arrays", b'{"x":[%b]}\0' % b",".join([b"[]"] * 1000), Routed()),
    Row("a huge key", lambda _: b'{"%b":1}\0' % (b"k" * 60_000), Routed()),
    Row("seven thousand keys", lambda _: keys(7000), Routed()),
    Row("the same key five thousand times", lambda _: b"{%b}\0" % b",".join([b'"x":1'] * 5000), Routed()),
    Row("the same key twice", b'{"x":1,"x":[2]}\0', Routed()),
    Row("an event twice, of which the last counts", b'{"event":7,"event":"x"}\0', Routed()),
    Row("__proto__ and constructor", b'{"__proto__":{"x":1},"constructor":null}\0', Routed()),
    Row("NUL in a string, escaped", rb'{"x":"a\u0000b"}' + b"\0", Routed()),
    Row("NUL in a key, escaped", rb'{"\u0000":1}' + b"\0", Routed()),
    Row("every character that has to be escaped", rb'{"x":"\"\\\/\b\f\n\r\t\u001f"}' + b"\0", Routed()),
    Row("a whole pair, escaped", rb'{"x":"\ud83d\ude00"}' + b"\0", Routed()),
    Row("characters that are none", '{"x":"\ufffe\uffff\ufdd0"}\0'.encode(), Routed()),
    Row("a byte order mark inside a string", '{"x":"\ufeff"}\0'.encode(), Routed()),
    Row("text that runs backwards", '{"event":"\u202egnip"}\0'.encode(), Routed()),
    Row("numbers beyond a double", b'{"x":[1e400,-1e400,1e-400]}\0', Routed()),
    Row("a number of five thousand digits", b'{"x":%b}\0' % (b"9" * 5000), Routed()),
    Row("a number of sixty thousand digits", lambda _: b'{"x":%b}\0' % (b"9" * 60_000), Routed()),
    Row("a fraction of sixty thousand digits", lambda _: b'{"x":0.%b}\0' % (b"1" * 60_000), Routed()),
    Row("many long numbers", lambda _: b'{"x":[%b]}\0' % b",".join([b"7" * 4000] * 15), Routed()),
    Row("numbers in odd formats", b'{"x":[-0,0.0,-0.0,1E5,1.50,18446744073709551616]}\0', Routed()),
)

DEFECTS = (
    Row(
        "a size of five thousand digits",
        _sized("9" * 5000),
        Closed("payload-too-large"),
    ),
)

ROWS = (
    *BAD_UTF8,
    *BAD_JSON,
    *NOT_AN_OBJECT,
    *BAD_SIZE,
    *PAYLOAD_TOO_LARGE,
    *METADATA_TOO_LARGE,
    *TOO_DEEP,
    *BEFORE_JOINING,
    *LEGAL,
    *DEFECTS,
)
