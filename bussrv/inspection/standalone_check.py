"""Check proofs that records are in a journal, with the standard library of Python and OpenSSL 3, and nothing else.
Signatures are Ed25519, and, if OpenSSL is 3.5 or newer, ML-DSA-44. Others are named and not counted.

    python3 check.py [--log-key VKEY] [--witness-key VKEY]... [--quorum N] [FILE.tlog-proof]...

By default it checks all proofs beside it, with the keys in keys.json: then it shows only that everything fits together,
not who made it. The exit status is 0 if everything is right, and 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

ED25519, ML_DSA_44 = "302a300506032b6570032100", "30820532300b06096086480165030403110382052100"
DER = {kind: bytes.fromhex(head) for kind, head in ((1, ED25519), (4, ED25519), (6, ML_DSA_44))}
"""The bytes before a key in DER, by its type: of a log, of a witness, and of a witness with ML-DSA-44."""


class Wrong(Exception):
    """A proof does not hold."""


def need(condition: object, what: str) -> None:
    """Stop unless a condition holds."""
    if not condition:
        raise Wrong(what)


def parse_key(text: str) -> tuple[str, bytes, int, bytes]:
    """The name, the id, the type and the bytes of a verifier key."""
    need(text.count("+") > 1, f"not a verifier key: {text!r}")
    name, shown, encoded = text.split("+", 2)
    key = base64.b64decode(encoded, validate=True)
    own = sha256(name.encode() + b"\n" + key).digest()[:4]
    need(own.hex() == shown, f"the id of the key {name} is {own.hex()}, not {shown}")
    need(key[0] in DER and len(key) == (1313 if key[0] == 6 else 33), f"the key {name} is of a type that is not known")
    return name, own, key[0], key[1:]


def is_right(key: bytes, message: bytes, signature: bytes) -> bool | None:
    """Whether OpenSSL finds that a signature is right; None: it does not know such keys."""
    with tempfile.TemporaryDirectory() as place:
        files = [str(Path(place, name)) for name in ("key", "message", "signature")]
        for path, data in zip(files, (key, message, signature), strict=True):
            Path(path).write_bytes(data)
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", files[0], "-rawin"]
        done = subprocess.run([*command, "-in", files[1], "-sigfile", files[2]], capture_output=True)
    return not done.returncode if b"Signature Verif" in done.stdout + done.stderr else None


def parse_note(note: str) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    """The text of a signed note, and its signatures."""
    body, blank, lines = note.rpartition("\n\n")
    need(blank and lines.endswith("\n"), "the checkpoint is not signed")
    found = []
    for line in lines.splitlines():
        dash, name, encoded = line.split(" ")
        value = base64.b64decode(encoded, validate=True)
        need(dash == "\u2014", "a line of a signature begins with a dash")
        found.append((name, value[:4], value[4:]))
    return body + "\n", found


def is_signed(note: str, text_of_key: str) -> bool:
    """Whether a key signed a checkpoint: that of a log (type 1), or of a witness (types 4 and 6), with a time."""
    name, own, kind, key = parse_key(text_of_key)
    text, found = parse_note(note)
    for each, each_id, value in found:
        if (each, each_id) == (name, own):
            stamp, value = (b"", value) if kind == 1 else (value[:8], value[8:])
            time, (origin, size, root) = f"time {int.from_bytes(stamp, 'big')}\n", text.encode().split(b"\n")[:3]
            names = [bytes([len(part)]) + part for part in (name.encode(), origin)]
            tree = bytes(8) + int(size).to_bytes(8, "big") + base64.b64decode(root)
            subtree = b"subtree/v1\n\0" + names[0] + stamp + names[1] + tree
            message = {1: text.encode(), 4: f"cosignature/v1\n{time}{text}".encode(), 6: subtree}[kind]
            right = is_right(DER[kind] + key, message, value)
            need(right is not False, f"the signature of {name} is wrong")
            if right is None:
                sys.stderr.write(
                    f"not counted: OpenSSL cannot check the key of {name}; for ML-DSA-44 it has to be 3.5\n"
                )
            return bool(right)
    return False


def root_of(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """The root hash that a path leads to: RFC 9162, section 2.1.3.2."""
    need(0 <= index < size, f"entry {index} is not in a tree of {size}")
    number, last, found = index, size - 1, leaf
    for each in path:
        need(last, "the path is too long")
        if number & 1 or number == last:
            found = sha256(b"\1" + each + found).digest()
            while number and not number & 1:
                number, last = number >> 1, last >> 1
        else:
            found = sha256(b"\1" + found + each).digest()
        number, last = number >> 1, last >> 1
    need(not last, "the path is too short")
    return found


def check(data: str, log_key: str, witnesses: list[str], quorum: int) -> str:
    """Check a proof, and say what it proves."""
    head, _, note = data.partition("\n\n")
    first, extra, index, *path = head.split("\n")
    need(first == "c2sp.org/tlog-proof@v1" and extra.startswith("extra "), "not a proof with its record")
    line = base64.b64decode(extra[6:], validate=True)
    origin, size, root = parse_note(note)[0].split("\n")[:3]
    need(parse_key(log_key)[0] == origin, f"the proof is of the journal {origin}, and the key of another one")
    need(is_signed(note, log_key), f"the checkpoint is not signed by {log_key}")
    count = len({parse_key(each)[0] for each in witnesses if is_signed(note, each)})  # each counts once
    need(count >= quorum, f"{count} of the witnesses cosigned the checkpoint, not {quorum}")
    hashes = [base64.b64decode(each, validate=True) for each in path]
    found = root_of(sha256(b"\0" + line).digest(), int(index.removeprefix("index ")), int(size), hashes)
    need(found == base64.b64decode(root), "the record is not in the journal")
    return f"record {json.loads(line)['seq']} is in {origin}, cosigned by {count} witnesses: {line.decode()}"


def main() -> None:
    """Check the proofs."""
    here, parser = Path(__file__).parent, argparse.ArgumentParser()
    parser.add_argument("--log-key")
    parser.add_argument("--witness-key", action="append")
    parser.add_argument("--quorum", type=int)
    parser.add_argument("files", nargs="*", type=Path)
    given = parser.parse_args()
    own = json.loads((here / "keys.json").read_text()) if not given.log_key else {"witnesses": []}
    witnesses = own["witnesses"] if given.witness_key is None else given.witness_key
    quorum = len({each.split("+")[0] for each in given.witness_key or ()}) if given.quorum is None else given.quorum
    files = given.files or sorted(here.glob("*.tlog-proof"))
    try:
        need(files, "there is no proof")
        for path in files:
            sys.stdout.write(check(path.read_text("utf-8"), given.log_key or own["log"], witnesses, quorum) + "\n")
    except (Wrong, OSError, ValueError, KeyError) as error:
        sys.exit(f"WRONG: {error}")
    sys.stdout.write("OK\n" if given.log_key else "OK, but the keys are those of the proof: give one that you know\n")


if __name__ == "__main__":
    main()
