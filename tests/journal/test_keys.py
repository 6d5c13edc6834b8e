import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from bussrv.errors import JournalError
from bussrv.journal.keys import PrivateKey, PublicKey, generate, public_path, read_private, read_public

KEY = PrivateKey(bytes(range(32)))
OTHER = PrivateKey(bytes(32))


def write(path, text, mode=0o600):
    path.write_bytes(text)
    path.chmod(mode)
    return path


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hall.key"


# The first test vector of RFC 8032, section 7.1.
def test_a_known_key_signs_as_the_standard_says():
    key = PrivateKey(bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
    assert key.public.text == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert key.sign(b"") == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    assert key.public.fingerprint == "21fe31dfa154a261626bf854046fd227"


@given(st.binary(max_size=100))
def test_only_the_text_that_was_signed_verifies(text):
    signature = KEY.sign(text)
    assert KEY.public.verifies(text, signature)
    assert not KEY.public.verifies(text + b"x", signature)
    assert not OTHER.public.verifies(text, signature)


@given(st.text() | st.from_regex(r"[0-9a-fA-F]{128}", fullmatch=True), st.from_regex(r"[0-9a-f]{64}", fullmatch=True))
def test_garbage_verifies_nothing_and_raises_nothing(signature, public):
    assert not KEY.public.verifies(b"text", signature)
    assert PublicKey(public).verifies(b"text", signature) in (False, True)


def test_a_signature_in_upper_case_is_not_the_one_that_was_made():
    assert not KEY.public.verifies(b"text", KEY.sign(b"text").upper())


def test_the_secret_does_not_show():
    assert repr(KEY) == "PrivateKey()"


# Files.
def test_both_halves_are_made_and_can_be_read(path):
    public = generate(path)
    assert read_private(path).public == public == read_public(public_path(path))
    assert public_path(path).name == "hall.key.pub"
    assert b"PRIVATE" not in public_path(path).read_bytes()
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["hall.key", "hall.key.pub"]


def test_only_the_owner_may_read_the_private_key_for_any_umask(path):
    before = os.umask(0o077)
    try:
        generate(path)
    finally:
        os.umask(before)
    assert (mode_of(path), mode_of(public_path(path))) == (0o600, 0o644)


def test_each_key_is_another_one(tmp_path):
    assert generate(tmp_path / "a") != generate(tmp_path / "b")


@pytest.mark.parametrize("name", ["hall.key", "hall.key.pub"])
def test_nothing_is_written_over(path, name):
    there = path.with_name(name)
    there.write_text("precious")
    with pytest.raises(JournalError, match=f"there is a file .*{name} already; keys are never written over"):
        generate(path)
    assert [(entry.name, entry.read_text()) for entry in path.parent.iterdir()] == [(name, "precious")]


def test_a_link_that_leads_nowhere_is_not_followed(path):
    path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(JournalError, match="already"):
        generate(path)
    assert [entry.name for entry in path.parent.iterdir()] == ["hall.key"]


@pytest.mark.parametrize(("of", "name"), [(os, "fsync"), (Path, "hardlink_to"), (os, "fchmod")])
@pytest.mark.parametrize("number", [0, 1])
def test_a_disk_that_fails_leaves_nothing(path, monkeypatch, of, name, number):
    real, calls = getattr(of, name), []

    def failing(*args, **options):
        calls.append(args)
        if len(calls) > number:
            raise OSError(5, "Input/output error")
        return real(*args, **options)

    monkeypatch.setattr(of, name, failing)
    with pytest.raises(JournalError, match=r"cannot make the key .*hall\.key: Input/output error"):
        generate(path)
    assert list(path.parent.iterdir()) == []


def test_the_directory_must_be_there(tmp_path):
    with pytest.raises(JournalError, match=r"cannot make the key .*: No such file or directory"):
        generate(tmp_path / "missing" / "hall.key")


@pytest.mark.parametrize("read", [read_private, read_public])
def test_a_missing_key_is_said_to_be_missing(path, read):
    with pytest.raises(JournalError, match=r"there is no key .*hall\.key; bussrv journal keygen makes one"):
        read(path)


@pytest.mark.parametrize("read", [read_private, read_public])
def test_what_cannot_be_read_is_said_to_be_so(tmp_path, read):
    with pytest.raises(JournalError, match=r"cannot read the key .*: Is a directory"):
        read(tmp_path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o602])
def test_a_private_key_that_others_may_use_is_refused(path, mode):
    generate(path)
    path.chmod(mode)
    with pytest.raises(
        JournalError, match=rf"others than its owner .*\(mode 0{mode:o}\): chmod 600 {re.escape(str(path))}"
    ):
        read_private(path)


def test_a_private_key_may_be_read_only(path):
    public = generate(path)
    path.chmod(0o400)
    assert read_private(path).public == public


@pytest.mark.parametrize("text", [b"", b"\x00\xff", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_what_is_no_key_is_refused(path, text):
    write(path, text)
    with pytest.raises(JournalError, match="is not an Ed25519 private key in PEM"):
        read_private(path)
    with pytest.raises(JournalError, match="is not an Ed25519 public key in PEM"):
        read_public(path)


def test_one_half_is_not_taken_for_the_other(path):
    generate(path)
    with pytest.raises(JournalError, match="not an Ed25519 public key"):
        read_public(path)
    public_path(path).chmod(0o600)
    with pytest.raises(JournalError, match="not an Ed25519 private key"):
        read_private(public_path(path))


def test_keys_of_another_kind_are_refused(path):
    key = generate_private_key(SECP256R1())
    write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(JournalError, match="not an Ed25519 private key, but of another kind"):
        read_private(path)
    write(path, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(JournalError, match="not an Ed25519 public key, but of another kind"):
        read_public(path)


def test_an_encrypted_key_is_refused(path):
    write(path, KEY.load().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    with pytest.raises(JournalError, match="is encrypted"):
        read_private(path)


@pytest.mark.processes
def test_a_server_without_a_key_does_not_load_what_computes():
    program = (
        "import sys, bussrv.journal.keys, bussrv.journal.manifest;"
        "print([name for name in sys.modules if name.split('.')[0] in ('cryptography', 'twisted')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
