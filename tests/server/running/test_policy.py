"""The policy of a server: checked at the start and by ``bussrv check``, read again, and asked by ``bussrv policy``."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor

from bussrv.cli.main import main
from bussrv.errors import ConfigError
from bussrv.policy.permissions.permissions import NOTHING
from bussrv.policy.permissions.rules import Rules
from bussrv.server.configuration import config
from bussrv.server.configuration.sources import of_command_line
from bussrv.server.running.service import BusService
from tests.server.running.test_reload import FILE, FORMATS, FREE, SERVICES, Running
from tests.tables import each_row

GOOD = '[[rule]]\nusers = "ann"\nwatch = "tv"\n'
BAD = '[[rule]]\nusers = 7\nwach = "tv"\n'


def policy_file(place: Path, text: str, name: str = "policy.toml") -> str:
    path = place / name
    path.write_text(text)
    path.chmod(0o600)
    return f'policy = "{path}"\n'


def ann_watches(running: Running) -> bool:
    """Whether ann may watch tv; anonymous may not."""
    policy = running.server.bus.access.policy
    assert isinstance(policy, Rules)
    assert policy.permissions("anonymous", "127.0.0.1:1", "spp") is NOTHING
    return policy.permissions("ann", "127.0.0.1:1", "spp").may("watch", "tv")


@pytest_twisted.ensureDeferred
async def test_a_reload_reads_the_policy_again_or_keeps_the_old_one(tmp_path: Path) -> None:
    named = policy_file(tmp_path, GOOD)
    running = Running(tmp_path, named)
    access = running.server.bus.access
    assert ann_watches(running)
    policy_file(tmp_path, BAD)
    before = access.policy
    running.reload()
    assert (running.outcome(), access.policy) == ("failed", before)
    path = tmp_path / "policy.toml"
    assert f"not reloaded: {path}:2: users: 7 is not a text" in running.said
    assert any(line.startswith(f"not reloaded: {path}:3: there is no key 'wach'") for line in running.said)
    # A fault elsewhere, and a good policy: nothing changes.
    policy_file(tmp_path, GOOD.replace("watch", "publish"))
    running.reload(f"{named}max-links = 0")
    assert (running.outcome(), access.policy) == ("failed", before)
    running.reload(named)
    assert running.outcome() == "ok"
    assert not ann_watches(running)
    # The same again is the same rules: sessions keep their permissions.
    before = access.policy
    running.reload(named)
    assert (running.outcome(), access.policy) == ("ok", before)
    # Another file, then none, then one.
    running.reload(policy_file(tmp_path, GOOD, "other.toml"))
    assert ann_watches(running)
    running.reload("")
    assert access.policy is None
    running.reload(named)
    assert not ann_watches(running)
    changed = [event.changed for event in await running.stop() if hasattr(event, "changed")]
    assert changed == [(), (), ("policy",), ("policy",), ("policy",)]


def test_a_server_does_not_start_with_a_bad_policy(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(policy_file(tmp_path, BAD) + 'link = ["tcp:a:99999"]')
    given = of_command_line({**FREE, "journal": "off", "config": str(tmp_path / FILE)})
    server = BusService(config.build(given, FORMATS, SERVICES), FORMATS, reactor, services=SERVICES)
    with pytest.raises(ConfigError) as refused:
        server.startService()
    first, second, third = refused.value.sentences
    assert first == f"{tmp_path}/policy.toml:2: users: 7 is not a text"
    assert second.startswith(f"{tmp_path}/policy.toml:3: there is no key 'wach'")
    assert third.startswith(f"{tmp_path}/{FILE}:2: link: ")
    assert server.listeners == {}


def test_check_checks_the_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / FILE
    file.write_text(policy_file(tmp_path, GOOD) + 'journal = "off"\n')
    assert main(["check", str(file)]) == 0
    policy_file(tmp_path, BAD)
    assert main(["check", str(file)]) == 1
    assert f"bussrv check: {tmp_path}/policy.toml:2: users: 7 is not a text\n" in capsys.readouterr().err
    file.write_text(f'journal = "off"\npolicy = "{tmp_path}/none.toml"\n')
    assert main(["check", str(file)]) == 1
    said = f"{file}:2: policy: {tmp_path}/none.toml: cannot be read: No such file or directory"
    assert f"bussrv check: {said}\n" in capsys.readouterr().err


ASKED = """\
[[rule]]
users = "ann"
networks = ["10.0.0.0/8", "unix"]
send = ["text/*", "@Ping"]
admin = "read"

[[rule]]
formats = ["spp"]
watch = "*"
"""


@each_row(
    ("asked", "answer", "status"),
    [
        ("test --user ann --from 10.1.1.1 send Text/Plain;charset=x", 'yes: policy.toml:4: send = "text/*"', 0),
        ("test --user ann --from unix send @PING", 'yes: policy.toml:4: send = "@Ping"', 0),
        ("test --user ann --from [10.1.1.1]:80 admin write", "no: policy.toml: no rule for this user allows it", 1),
        ("test --user ann send text/plain", "no: no rule applies to this user", 1),
        ("test --format spp watch tv", 'yes: policy.toml:9: watch = "*"', 0),
        ("test --format spp watch bus/registry", "no: policy.toml: no rule for this user allows it", 1),
        ("show --user ann --from 10.1.1.1 --format spp", "policy.toml:4: send = ", 0),
        ("show", "no rule applies to this user", 0),
    ],
)
def test_questions_about_a_policy(
    asked: str, answer: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FILE).write_text(policy_file(tmp_path, ASKED))
    question, *about = asked.split()
    for source in (["--policy", str(tmp_path / "policy.toml")], ["--config", str(tmp_path / FILE)]):
        assert main(["policy", question, *source, *about]) == status
        assert capsys.readouterr().out.startswith(answer)


@each_row(
    ("asked", "fault"),
    [
        ("test --format http watch tv", "--format: there is no wire format 'http': there are "),
        ("test --from hall watch tv", "--from: 'hall' is no address"),
        ("test admin all", "'all' is neither read nor write"),
    ],
)
def test_questions_that_make_no_sense(
    asked: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy_file(tmp_path, ASKED)
    question, *about = asked.split()
    assert main(["policy", question, "--policy", str(tmp_path / "policy.toml"), *about]) == 2
    assert capsys.readouterr().err.startswith(f"bussrv policy: {fault}")


def test_a_bad_policy_answers_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy_file(tmp_path, BAD)
    assert main(["policy", "show", "--policy", str(tmp_path / "policy.toml")]) == 2
    (tmp_path / FILE).write_text("")
    assert main(["policy", "show", "--config", str(tmp_path / FILE)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in said] == ["bussrv policy"] * 3
    assert said[2] == f"bussrv policy: {tmp_path}/{FILE} names no policy"
