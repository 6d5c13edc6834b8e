"""The how-to pages: their commands are run as written, one after the other; commands that start a server are parsed."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from twisted.scripts.twistd import ServerOptions

from bussrv.cli.commands.records.audit import audit
from bussrv.cli.commands.records.journal import ship
from bussrv.journal import manifest
from bussrv.journal.recovery import Damaged, recover
from bussrv.journal.segment import segment_name
from bussrv.journal.versions import READ_VERSIONS, SCHEMA_VERSION
from bussrv.policy.logins.tokens import TOKENS_FILE
from bussrv.policy.logins.users import USERS_FILE
from bussrv.server.configuration.exposure import check_endpoints
from tests.cli.test_examples import in_process
from tests.docs.commands import prepare, says
from tests.docs.golden import PLACE
from tests.docs.pages import PAGES, ROOT, blocks, rows
from tests.forked import ForkedServer

HOW_TO = [str(path.relative_to(ROOT)) for path in PAGES if path.parent.name == "how-to"]
AUDITED = [
    (each,)
    for each in (
        *("./bussrv-journal", "/srv/archive/hall"),
        *("s3://bus-archive/hall", "hdfs://namenode.example:8020/bus/hall"),
    )
] + [("/srv/archive/hall", "/srv/archive/barn")]
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "PYTHONPATH": str(ROOT),
}


def commands(block: str) -> list[tuple[str, str]]:
    """Every command of a block, and what it prints."""
    return re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE)


def starts() -> list[str]:
    # The page on exposure has a test that does start its server.
    pages = [page for page in HOW_TO if not page.endswith("expose.md")]
    found = [command for page in pages for block in blocks(page, "console") for command, _ in commands(block)]
    units = [line for page in HOW_TO for block in blocks(page, "ini") for line in block.splitlines()]
    found += [line.removeprefix("ExecStart=/opt/bussrv/bin/") for line in units if line.startswith("ExecStart=")]
    return [command for command in found if command.startswith("twistd ")]


def run(command: str, place: Path, said_to_it: str = "") -> str:
    ran = subprocess.run(
        ["sh", "-c", command],
        cwd=place,
        env=ENVIRONMENT,
        input=said_to_it,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ran.stdout


@pytest.mark.processes
@pytest.mark.parametrize(
    "block",
    [
        block
        for name in ("disaster", "journal-keys")
        for block in blocks(f"docs/how-to/{name}.md", "console")
        if not block.startswith("$ twistd")
    ],
)
def test_commands_about_journals(block: str, tmp_path: Path) -> None:
    prepare(tmp_path)
    if "backup copy" in block:
        run("bussrv journal backup bussrv-journal copy", tmp_path)
    for command, wanted in commands(block):
        said = run(command, tmp_path)
        assert says(said, wanted), said


@pytest.mark.processes
def test_the_steps_of_shipping(tmp_path: Path) -> None:
    prepare(tmp_path)
    found = [each for block in blocks("docs/how-to/ship-journals.md", "console") for each in commands(block)]
    asked = [(command, wanted) for command, wanted in found if not command.startswith("twistd")]
    for command, wanted in asked:
        said = run(command, tmp_path)
        assert says(said, wanted), said
    assert len(asked) == 3
    assert (tmp_path / "restored/manifest").exists()


def test_the_unit_that_ships_names_the_command() -> None:
    (unit,) = blocks("docs/how-to/ship-journals.md", "ini")
    (line,) = re.findall(r"^ExecStart=/opt/bussrv/bin/bussrv journal ship (.*)$", unit, re.MULTILINE)
    given = ship.make_context("ship", shlex.split(line)).params
    assert (given["url"], given["follow"]) == ("s3://bus-archive/hall", True)
    assert f"ReadWritePaths={given['directory']}" in unit


@pytest.mark.processes
def test_the_sentence_of_a_start_that_is_refused(tmp_path: Path) -> None:
    (block,) = [each for each in blocks("docs/how-to/disaster.md", "console") if each.startswith("$ twistd")]
    ((_, wanted),) = commands(block)
    prepare(tmp_path)
    path = tmp_path / "bussrv-journal" / segment_name(32)
    changed = path.read_bytes().replace(b'"reason":"connection-lost"', b'"reason":"connection-left"')
    path.write_bytes(changed)
    with pytest.raises(Damaged) as refused:
        recover(path.parent, None)
    assert f"bussrv: {refused.value}\n".replace(str(path.parent), "/var/lib/bussrv/journal") == wanted


@pytest.mark.processes
def test_the_file_of_users(tmp_path: Path) -> None:
    first, _, tokens, certificates, _ = blocks("docs/how-to/users.md", "console")
    for command, _ in (*commands(first), commands(tokens)[0]):
        run(command, tmp_path, "a long secret\n")
    assert {each.user for each in TOKENS_FILE.read(tmp_path / "tokens").values()} == {"camera"}
    assert (tmp_path / "users").stat().st_mode & 0o777 == 0o600
    assert USERS_FILE.read(tmp_path / "users").keys() == {"ann"}
    run("bussrv init hall", tmp_path)
    for command, _ in commands(certificates):
        run(command, tmp_path)
    check = "openssl verify -CAfile hall/ca.pem camera.pem && openssl x509 -noout -subject -in camera.pem"
    assert re.fullmatch(r"camera.pem: OK\nsubject=CN ?= ?camera\n", run(check, tmp_path))


@pytest.mark.processes
def test_the_steps_of_an_upgrade(tmp_path: Path) -> None:
    """And of the way back, with a server: the copy is made while it runs, and a server starts from it again."""
    (tmp_path / "bussrv.toml").write_text("max-links = 5\n")
    steps = [each for block in blocks("docs/how-to/upgrade.md", "console") for each in commands(block)]
    journal = tmp_path / "bussrv-journal"
    with ForkedServer(journal) as server:
        host, port = server.addresses["admin"]
        for command, said in steps:
            here = command.replace("bussrv drain", f"bussrv drain --server {host}:{port}")
            assert says(run(here, tmp_path).strip(), said.strip()), command
            if "drain" in command:
                assert server.process.wait(timeout=30) == 0
    assert [command.split()[:2] for command, _ in steps].count(["bussrv", "journal"]) == 3
    assert not (tmp_path / "bussrv-journal.before").exists()
    with ForkedServer(journal) as again:
        assert again.stop() == 0


def test_the_versions_of_the_journal_are_those_of_the_code() -> None:
    _, first, *others = rows("docs/how-to/upgrade.md")
    assert (first[1], first[2]) == (str(SCHEMA_VERSION), " and ".join(map(str, READ_VERSIONS)))
    assert [row[1] for row in others] == [str(manifest.VERSION)]


@pytest.mark.processes
def test_the_token_of_the_dashboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, block = blocks("docs/how-to/dashboard.md", "console")
    ((command, _),) = commands(block)
    monkeypatch.chdir(tmp_path)
    with ForkedServer("bussrv-journal") as server:
        connection = http.client.HTTPConnection(*server.addresses["admin"], timeout=10)
        connection.request(
            "GET", "/api/v1/server", headers={"Authorization": f"Bearer {run(command, tmp_path).strip()}"}
        )
        assert json.load(connection.getresponse())["permissions"] == {"read": True, "write": True}
        connection.close()


def test_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (policy,) = blocks("docs/how-to/policy.md", "toml")
    (tmp_path / "policy.toml").write_text(policy)
    (tmp_path / "policy.toml").chmod(0o600)
    shutil.copytree(PLACE / "whole", tmp_path / "bussrv-journal")
    found = [each for block in blocks("docs/how-to/policy.md", "console") for each in commands(block)]
    for command, wanted in found:
        program, *words = shlex.split(command.removesuffix(" || true"))
        if program == "bussrv":
            status, *said = in_process(words, ends=True)
            assert said == [wanted, ""], command
            assert status == (1 if command.endswith(" || true") else 0)


@pytest.mark.parametrize("command", starts())
def test_every_start_is_understood(command: str, tmp_path: Path) -> None:
    """By ``twistd`` up to the word ``bussrv``, and by bussrv after it."""
    (tmp_path / "bussrv.toml").write_text("".join(blocks("docs/how-to/lan.md", "toml")))
    options = ServerOptions()
    options.parseOptions(command.replace("/etc/bussrv/bussrv.toml", str(tmp_path / "bussrv.toml")).split()[1:])
    assert options.subCommand == "bussrv"
    config = options.subOptions.config
    assert check_endpoints(config, config.endpoints) == []


def test_audits_are_understood() -> None:
    """To run them takes Spark, which the tests of the audit start."""
    pages = [f"docs/how-to/{name}.md" for name in ("audit", "audit-cluster", "audit-hdfs", "audit-object-store")]
    found = [shown for page in pages for block in blocks(page, "console") for shown, _ in commands(block)]
    # The page on object stores also names variables; its test runs it.
    found = [shown for shown in found if not shown.startswith("export ")]
    for shown in found:
        words = shlex.split(shown)
        is_program = (word.startswith("$(python") for word in words)
        begin = 2 if words[:2] == ["bussrv", "audit"] else [*is_program].index(True) + 1
        given = audit.make_context("audit", words[begin:]).params
        assert given["journals"] in ([()] if given.get("sql") else AUDITED)
    assert len(found) == 21
