"""Identity: every checker keeps the same contract, several are asked in their order, and none shows a secret."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.cred.checkers import FilePasswordDB, ICredentialsChecker, InMemoryUsernamePasswordDatabaseDontUse
from twisted.cred.credentials import IUsernamePassword, UsernamePassword
from twisted.cred.error import UnauthorizedLogin
from twisted.cred.strcred import findCheckerFactory, makeChecker
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from zope.interface import implementer
from zope.interface.verify import verifyObject

from bussrv.policy.interfaces import IIdentity
from bussrv.policy.logins.checkers import FIELDS, PATIENCE, CertificateUsers, Checker, Foreign, Tokens, Users, user_of
from bussrv.policy.logins.credentials import Credentials, Denial, Password, Proof, Token
from bussrv.policy.logins.identity import Identity
from bussrv.policy.logins.tokens import TokenUse, digest
from bussrv.policy.logins.users import SecretHash
from tests.logins import USERS, Held, at_once
from tests.size import sized
from tests.tables import each_row

CHEAP = USERS["ann"]
HASHES = {secret: CHEAP.made_of(secret.encode()) for secret in "xy"}
CERTIFICATE = {
    "subject": ((("organizationName", "hall"),), (("commonName", "ann"),)),
    "subjectAltName": (("DNS", "ann.example"), ("email", "ann@example"), ("URI", "spiffe://hall/ann")),
}


def in_memory(**users: str) -> Foreign:
    checker = InMemoryUsernamePasswordDatabaseDontUse(**{user: secret.encode() for user, secret in users.items()})
    return Foreign("memory:" + ":".join(users), checker, Clock())


def identity_with(*checkers: Checker) -> Identity:
    identity = Identity(Clock(), at_once)
    identity.use(checkers)
    return identity


def outcome(identity: Identity, credentials: Credentials) -> Any:
    outcomes: list[Any] = []
    identity.log_in(credentials, "10.0.0.1:1").addBoth(outcomes.append)
    return outcomes[0] if outcomes else None


# The contract: right credentials prove it, wrong ones are denied, and what is proved holds as long as the checker.

CHECKERS: list[tuple[Callable[[], Checker], Credentials, Credentials]] = [
    (lambda: Users({"ann": CHEAP}), Password("ann", b"s3cret"), Password("ann", b"guess")),
    (lambda: Tokens({digest("token"): TokenUse("ann")}), Token("token"), Token("tokem")),
    (lambda: in_memory(ann="s3cret"), Password("ann", b"s3cret"), Password("bob", b"s3cret")),
]


@each_row(("make", "right", "wrong"), CHECKERS, ids=["users", "tokens", "foreign"])
def test_the_contract(make: Callable[[], Checker], right: Credentials, wrong: Credentials) -> None:
    identity = identity_with(make())
    assert verifyObject(IIdentity, identity)
    method = "token" if isinstance(right, Token) else "password"
    proof = outcome(identity, right)
    assert isinstance(proof, Proof)
    assert (proof.actor, proof.method, identity.holds(proof)) == ("ann", method, True)
    denial = outcome(identity, wrong)
    assert denial == Denial(method, "bad-credentials", getattr(wrong, "user", None))
    identity.use([])
    assert not identity.holds(proof)
    assert isinstance(outcome(identity, right), Denial)
    identity.use([make()])
    assert identity.holds(proof)
    assert outcome(identity, right) == proof


@each_row("field", FIELDS)
def test_the_contract_of_certificates(field: str) -> None:
    identity = identity_with(CertificateUsers(field))
    proof = identity.of_certificate(CERTIFICATE)
    assert isinstance(proof, Proof)
    wanted = {"cn": "ann", "dns": "ann.example", "email": "ann@example", "uri": "spiffe://hall/ann"}[field]
    assert (proof.actor, proof.method, identity.holds(proof)) == (wanted, "certificate", True)
    assert identity.of_certificate({}) == Denial("certificate", "bad-certificate")
    identity.use([])
    assert identity.of_certificate(CERTIFICATE) is None
    assert not identity.holds(proof)


def test_held_is_an_identity() -> None:
    assert verifyObject(IIdentity, Held())


# Certificates.


@given(st.lists(st.sampled_from(["ann", "bob", "a\0nn", "", "anonymous", " ann", "*"]), max_size=3))
def test_a_field_that_is_missing_doubled_or_no_name_is_no_user(names: list[str]) -> None:
    alternatives = tuple(("DNS", each) for each in names)
    certificate = {"subject": tuple((("commonName", each),) for each in names), "subjectAltName": alternatives}
    wanted = names[0] if len(names) == 1 and names[0] in ("ann", "bob") else None
    assert [user_of(certificate, field) for field in ("cn", "dns", "email", "uri")] == [wanted, wanted, None, None]


# Several checkers.


@settings(max_examples=sized(100))
@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")), max_size=3),
    st.sampled_from("abc"),
    st.sampled_from("xyz"),
)
def test_several_are_asked_in_their_order(files: list[dict[str, str]], user: str, secret: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bussrv.policy.logins.checkers.NOBODY", CHEAP)
        checkers = [Users({name: HASHES[each] for name, each in users.items()}) for users in files]
    found = outcome(identity_with(*checkers), Password(user, secret.encode()))
    right = [users for users in files if users.get(user) == secret]
    assert isinstance(found, Proof) == bool(right)
    if right:
        first = checkers[files.index(right[0])]
        assert first.holds(found)


def test_a_proof_is_one_by_its_own_checker_only() -> None:
    checkers = [make() for make, _, _ in CHECKERS] + [CertificateUsers("cn")]
    identity = identity_with(*checkers)
    proofs = [outcome(identity_with(make()), right) for make, right, _ in CHECKERS]
    proofs.append(identity.of_certificate(CERTIFICATE))
    assert [[each.holds(proof) for each in checkers] for proof in proofs] == [
        [one is other for other in checkers] for one in checkers
    ]


# Checkers of others.


@implementer(ICredentialsChecker)
class Asked:
    """Answers as the test wants."""

    credentialInterfaces = (IUsernamePassword,)  # noqa: N815 - the name that Twisted asks for

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer

    def requestAvatarId(self, credentials: Any) -> Any:
        return self._answer(credentials)


def failing(credentials: Any) -> Any:
    raise RuntimeError(f"no {credentials.password}")


@pytest.mark.parametrize(
    ("answer", "actor", "lines"),
    [
        (lambda each: succeed(each.username), "ann", 0),
        (lambda each: succeed("joe"), "joe", 0),
        (lambda each: "ann", "ann", 0),
        (lambda each: fail(UnauthorizedLogin()), None, 0),
        (lambda each: fail(ValueError(each.password)), None, 1),
        (failing, None, 1),
        (lambda each: succeed(()), None, 1),
        (lambda each: succeed("anonymous"), None, 1),
        (lambda each: succeed(b"a\nb"), None, 1),
        (lambda each: succeed(None), None, 1),
        (lambda each: succeed(7), None, 1),
    ],
)
def test_checkers_of_others(answer: Callable[[Any], Any], actor: str | None, lines: int, logged: list[str]) -> None:
    identity = identity_with(Foreign("x:MARKER", Asked(answer), Clock()))
    found = outcome(identity, Password("ann", b"MARKER"))
    assert (found.actor if isinstance(found, Proof) else None) == actor
    assert len(logged) == lines
    assert "MARKER" not in "".join([*logged, repr(found)])


def test_one_that_cannot_be_asked_proves_nothing(logged: list[str]) -> None:
    identity = identity_with(Foreign("x:MARKER", object(), Clock()), Users({"ann": CHEAP}))
    assert isinstance(outcome(identity, Password("ann", b"s3cret")), Proof)
    assert isinstance(outcome(identity, Password("ann", b"guess")), Denial)
    assert len(logged) == 2


def test_one_that_does_not_answer_keeps_nobody_out(logged: list[str]) -> None:
    clock = Clock()
    identity = Identity(clock, at_once)
    identity.use([Foreign("x:", Asked(lambda _: Deferred()), clock), Users(USERS)])
    outcomes: list[Any] = []
    for secret in (b"1", b"2", b"3"):
        identity.log_in(Password("ann", secret), "10.0.0.1:1").addBoth(outcomes.append)
    identity.log_in(Password("ann", b"s3cret"), "10.0.0.2:1").addBoth(outcomes.append)
    for _ in range(3):
        clock.advance(PATIENCE)
    assert sum(isinstance(each, Proof) for each in outcomes) == 1
    assert len(outcomes) == 4
    assert "TimeoutError" in "".join(logged)
    assert clock.getDelayedCalls() == []


def test_what_another_checker_said_is_not_remembered() -> None:
    checker = InMemoryUsernamePasswordDatabaseDontUse(ann=b"s3cret")
    identity = identity_with(Foreign("memory:", checker, Clock()))
    assert isinstance(outcome(identity, Password("ann", b"s3cret")), Proof)
    checker.users.clear()
    assert isinstance(outcome(identity, Password("ann", b"s3cret")), Denial)


def test_a_file_of_twisted(tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text("ann:s3cret\n")
    identity = identity_with(Foreign("file:", FilePasswordDB(str(tmp_path / "passwords")), Clock()))
    assert isinstance(outcome(identity, Password("ann", b"s3cret")), Proof)
    assert isinstance(outcome(identity, Password("ann", b"secret")), Denial)


# Ours, in programs of others.


def test_ours_are_checkers_for_every_program_with_twisted(tmp_path: Path) -> None:
    for name, text in {"users": f"ann:{CHEAP}\n", "tokens": f"ann:sha256${digest('token').hex()}\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    checkers = [makeChecker(f"users:{tmp_path / 'users'}"), makeChecker(f"tokens:{tmp_path / 'tokens'}")]
    checkers.append(makeChecker("certificates:cn"))
    for name, checker in zip(("users", "tokens", "certificates"), checkers, strict=True):
        assert verifyObject(ICredentialsChecker, checker)
        assert tuple(findCheckerFactory(name).credentialInterfaces) == checker.credentialInterfaces
    answers: list[Any] = []
    for text in ("token", "none"):
        checkers[1].requestAvatarId(Token(text)).addBoth(answers.append)
    assert answers[0] == b"ann"
    assert answers[1].check(UnauthorizedLogin)


def test_users_prove_it_to_other_programs_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bussrv.policy.logins.checkers.deferToThread", at_once)
    users = Users({"ann": SecretHash(b"salt", bytes(32), 2, 1, 1).made_of(b"s3cret")})
    answers: list[Any] = []
    for user, secret in ((b"ann", b"s3cret"), ("ann", "s3cret"), (b"ann", b"guess"), (b"bob", b"s3cret")):
        users.requestAvatarId(UsernamePassword(user, secret)).addBoth(answers.append)
    assert answers[:2] == [b"ann", "ann"]
    assert all(each.check(UnauthorizedLogin) for each in answers[2:])
