"""The options of users and of SPP, and a server that has them."""

from pathlib import Path
from typing import Any

import pytest

from bussrv.client.objects import BusError, ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.errors import ConfigError
from bussrv.policy.logins.users import SecretHash
from bussrv.server.configuration.options import Options
from bussrv.wire import spp
from tests.forked import ForkedServer
from tests.server.configs import configured
from tests.tables import each_row

ANN = "ann:" + str(SecretHash(b"salt", bytes(32), 1 << 14, 8, 1).made_of(b"s3cret")) + "\n"


def test_without_them_nobody_is_asked_slow_clients_are_cut_off() -> None:
    config = configured({})
    assert (config.auth, config.settings.slow_spp) == ((), "disconnect")


@each_row("value", ["spp=coalesce", ["spp=coalesce"], ["spp=disconnect", "spp=coalesce"]])
def test_the_policy_for_slow_clients(value: Any) -> None:
    assert configured({"slow": value}).settings.slow_spp == "coalesce"


@each_row("value", ["coalesce", "spp", "spp=", "spp=drop", "objects=coalesce", "", 7, ["spp=x"], [7]])
def test_policies_that_there_are_not(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^--slow: "):
        configured({"slow": value})


@each_row("value", [7, "", ["users:a", 7]])
def test_descriptions_of_checkers_are_texts_no_error_quotes(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^--auth: a checker is a text, such as users:/etc/bussrv/users$"):
        configured({"auth": value})


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = Options()
    options.parseOptions(["--slow", "spp=coalesce", "--auth", "users:users", "--auth", "memory:ann:x"])
    assert options.config.settings.slow_spp == "coalesce"
    assert options.config.auth == (f"users:{tmp_path / 'users'}", "memory:ann:x")


def test_the_configuration_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bussrv.toml").write_text('slow = "spp=coalesce"\nauth = ["users:users"]\n')
    options = Options()
    options.parseOptions(["--config", "bussrv.toml"])
    config = options.config
    assert (config.settings.slow_spp, config.auth) == ("coalesce", (f"users:{tmp_path / 'users'}",))


@pytest.mark.processes
@each_row(
    ("description", "fault"),
    [
        ("users:users", r"users, line 1: not of the form"),
        ("usres:users", r"there is no checker 'usres'; there are .*file.*memory.*users"),
        ("memory:ann", r"the checker 'memory' refuses what follows its name: InvalidAuthArgumentString"),
        ("anonymous", r"the checker 'anonymous' takes no user with a secret"),
    ],
)
def test_a_server_does_not_start_with_a_senseless_checker(
    description: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users").write_text("ann:s3cret\n")
    with pytest.raises(RuntimeError, match=f"bussrv: --auth: .*{fault}"):
        ForkedServer("off", ["--auth", description])


@pytest.mark.processes
def test_a_server_that_asks_who_its_clients_are(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(ANN)
    auth = ["--auth", "memory:joe:s3cret2", "--auth", f"users:{tmp_path / 'users'}"]
    with ForkedServer("off", [*auth, "--slow", "spp=coalesce"]) as server:
        with SppClient(port=server.port("spp")) as client:
            with pytest.raises(PermissionError):
                client.authenticate("ann", "secret")
            client.authenticate("ann", "s3cret")
            client.subscribe("never")
        with SppClient(port=server.port("spp")) as client:
            for _ in range(3):
                with pytest.raises(PermissionError):
                    client.authenticate("bob", "s3cret")
            with pytest.raises(ConnectionError):
                client.wait_for(lambda event: event == spp.Offer("never"))
        for user, secret in (("ann", "s3cret"), ("joe", "s3cret2")):
            with ObjectsClient(port=server.port("objects")) as member:
                for attributes, reason in (({}, "not-authenticated"), ({"secret": "guess"}, "bad-credentials")):
                    with pytest.raises(BusError) as refused:
                        member.subscribe(user=user, **attributes)
                    assert refused.value.reason == reason
                assert member.subscribe(user=user, secret=secret)["routing-id"]
        assert server.stop() == 0
    assert not [line for line in server.lines if "Traceback" in line or "s3cret" in line]
