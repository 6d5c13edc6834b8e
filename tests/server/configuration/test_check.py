"""``bussrv check``: all that a start with the same configuration would find wrong, and nothing is opened or written."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from bussrv.cli.main import main
from bussrv.journal.keys import generate
from bussrv.policy.logins.users import user_line
from tests.certificates import self_signed
from tests.tables import check_each

EVERY_FAULT = """
objects = "ssl:7890:privateKey=/nowhere.pem"
business = "tcp:0:port=5:none=1"
inbus = "udp:seven"
spp = "tcp:99999x"

link = ["tls:hall:7890:trustRoots=/nowhere.pem", "tcp:hall:99999"]
journal = "{taken}"
journal-key = "/nowhere.key"
journal-pseudonyms = "/proc"
"""


Checked = Callable[[str], tuple[int, str, list[str]]]


@pytest.fixture
def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Checked:
    """Check a file of this text. Returns the exit status, the standard output, and the faults."""
    monkeypatch.chdir(tmp_path)

    def check(text: str) -> tuple[int, str, list[str]]:
        Path("bus.toml").write_text(text)
        status = main(["check", "bus.toml"])
        said = capsys.readouterr()
        return status, said.out, [line.removeprefix("bussrv check: ") for line in said.err.splitlines()]

    return check


@pytest.mark.usefixtures("cheap_secrets")
def test_a_good_file_is_used_as_it_is(checked: Checked, tmp_path: Path) -> None:
    key, certificate = self_signed(tmp_path / "tls")
    generate(tmp_path / "seals.key")
    users = tmp_path / "users"
    users.write_text(user_line("ann", b"secret") + "\n")
    users.chmod(0o600)
    before = sorted(tmp_path.iterdir())
    status, said, faults = checked(
        f'objects = "ssl:7890:privateKey={key}:certKey={certificate}"\nauth = "users:{users}"\n'
        f'journal-key = "seals.key"\njournal-pseudonyms = "pseudonyms"\n'
        f'link = ["tls:hall:1:trustRoots={certificate}"]\n'
    )
    assert (status, said, faults) == (0, "bus.toml: the server can use it\n", [])
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "bus.toml"])


def test_every_fault_has_its_file_and_line(checked: Checked, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    status, said, faults = checked(EVERY_FAULT.format(taken=taken))
    assert (status, said) == (1, "")
    assert [fault.partition(": ")[0] for fault in faults] == [
        f"bus.toml:{line}" for line in (3, 4, 2, 5, 7, 7, 8, 9, 10)
    ]
    text = "\n".join(faults)
    for part in ("/nowhere.pem: cannot be read", "'udp:seven'", "99999x", "ports are 0 to 65535", "File exists"):
        assert part in text
    assert "there is no key /nowhere.key" in text
    assert "/proc is no file" in text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("max-links = 0", "bus.toml:1: max-links: 0 is not a whole number of 1 or more"),
        ("\nno-such = 1", "bus.toml:2: there is no option 'no-such'"),
        ("max-links = ", "bus.toml:1: not TOML: this is not a value; write text in quotes"),
        (
            'auth = "users:/nowhere"',
            "bus.toml:1: auth: cannot read the users in /nowhere: No such file or directory",
        ),
        ('journal-key = "bussrv-journal/key"', "the private key"),
    ],
)
def test_a_fault(checked: Checked, text: str, fault: str) -> None:
    status, _, faults = checked(text)
    assert status == 1
    assert any(fault in each for each in faults)


def test_an_unknown_option_hides_no_further_fault(checked: Checked) -> None:
    """Neither of the same file, nor of what it names. A wrong value is not judged twice."""
    status, _, faults = checked(
        'max-payloads = 1\nspp = "tcp:99999"\nmax-links = 0\nlink-token = "none"\ninbus = 70000\n'
        'auth = ["users:none", 7]\nobjects = "tcp:0:interface=0.0.0.0"\njournal-key = "none"\n'
    )
    assert status == 1
    assert [(fault.partition(": ")[0], fault.rpartition(": ")[2]) for fault in faults[:-1]] == [
        ("bus.toml:1", "there is no option 'max-payloads'; did you mean 'max-payload'?"),
        ("bus.toml:5", "ports are 0 to 65535"),
        ("bus.toml:6", "a checker is a text, such as users:/etc/bussrv/users"),
        ("bus.toml:3", "0 is not a whole number of 1 or more"),
        ("bus.toml:2", "ports are 0 to 65535"),
        ("bus.toml:4", "No such file or directory"),
    ]
    assert faults[-1].startswith("bus.toml:8: journal-key: there is no key ")


def test_nothing_is_opened(checked: Checked) -> None:
    """A port that somebody has is no fault: it may be the server that uses this file."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert checked(f'objects = {port}\nbusiness = {port}\nadmin = {port}\nspp = 1\njournal = "off"')[0] == 0


def test_places_in_which_nothing_can_be_made(checked: Checked, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    rows = {
        'admin-token-file = "none/token"': "none/token: cannot be made: No such file or directory",
        'admin-token-file = "file/token"': "file/token: cannot be made: Not a directory",
        'journal-pseudonyms = "none/keys"': "none/keys: No such file or directory",
        'journal = "file"': "file: File exists",
        'journal = "file/journal"': "file/journal: Not a directory",
    }

    def check(row: tuple[str, str]) -> None:
        status, _, faults = checked(row[0])
        assert status == 1
        assert [fault[-len(row[1]) :] for fault in faults] == [row[1]]

    check_each(((text, (text, said)) for text, said in rows.items()), check)


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "/nowhere.toml"]) == 1
    assert "cannot read /nowhere.toml: No such file or directory" in capsys.readouterr().err


def test_an_environment_variable_overrides_the_file(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSSRV_MAX_LINKS", "none")
    monkeypatch.setenv("BUSSRV_NO_SUCH", "1")
    status, _, faults = checked("max-links = 0")
    assert status == 1
    assert faults == [
        "BUSSRV_NO_SUCH: has no effect: there is no such option",
        "BUSSRV_MAX_LINKS: 'none' is not a whole number of 1 or more",
    ]
    monkeypatch.setenv("BUSSRV_MAX_LINKS", "5")
    assert checked("max-links = 0")[0] == 0


def test_options_without_effect_are_no_faults(checked: Checked) -> None:
    status, _, notes = checked('journal = "off"\njournal-sync = "off"')
    assert (status, notes) == (0, ["bus.toml:2: journal-sync: has no effect: bus.toml:1: journal is off"])


def test_another_key_than_that_of_the_journal(checked: Checked, tmp_path: Path) -> None:
    journal, other = tmp_path / "journal", tmp_path / "other.key"
    generate(tmp_path / "seals.key")
    generate(other)
    main(["journal", "synth", str(journal), "--events", "50", "--key", str(tmp_path / "seals.key")])
    assert checked(f'journal = "{journal}"\njournal-key = "seals.key"')[0] == 0
    status, _, faults = checked(f'journal = "{journal}"\njournal-key = "{other}"')
    assert status == 1
    assert len(faults) == 1
    assert faults[0].startswith("bus.toml:2: journal-key: ")
    assert "cannot go on with the key" in faults[0]


def test_the_admin_interface_is_checked_and_no_token_is_made(checked: Checked, tmp_path: Path) -> None:
    (fault,) = checked('admin = "tcp:seven:interface=127.0.0.1"\n')[2]
    assert fault.startswith("bus.toml:1: admin: 'tcp:seven:interface=127.0.0.1' is not a stream endpoint")
    token = tmp_path / "token"
    token.write_text("two words\n")
    token.chmod(0o600)
    (fault,) = checked('admin-token-file = "token"\n')[2]
    assert fault.startswith(f"bus.toml:1: admin-token-file: {token}: holds no token")
    faults = checked('admin = "tcp:7280:interface=0.0.0.0"\n')[2]
    assert faults[0].startswith("bus.toml:1: admin: everybody who reaches this machine could use it")
    assert checked("")[0] == 0
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".admin-token")]
