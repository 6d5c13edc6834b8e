"""What the options of SPP say, and a server that has them."""

from pathlib import Path
from typing import Any

import pytest

from bussrv.client.spp import SppClient
from bussrv.errors import ConfigError
from bussrv.formats.spp_users import SecretHash
from bussrv.server.options import Options
from bussrv.wire import spp
from tests.forked import ForkedServer
from tests.server.configs import configured
from tests.tables import each_row

ANN = "ann:" + str(SecretHash(b"salt", bytes(32), 1 << 14, 8, 1).made_of(b"s3cret"))


def test_without_them_everybody_may_watch_and_slow_clients_are_disconnected() -> None:
    settings = configured({}).settings
    assert (settings.spp_users, settings.slow_spp) == (None, "disconnect")


@each_row("value", ["spp=coalesce", ["spp=coalesce"], ["spp=disconnect", "spp=coalesce"]])
def test_the_policy_for_slow_clients(value: Any) -> None:
    assert configured({"slow": value}).settings.slow_spp == "coalesce"


@each_row("value", ["coalesce", "spp", "spp=", "spp=drop", "objects=coalesce", "", 7, ["spp=x"], [7]])
def test_policies_that_there_are_not(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^--slow: "):
        configured({"slow": value})


def test_the_command_line(tmp_path: Path) -> None:
    options = Options()
    options.parseOptions(["--slow", "spp=coalesce", "--spp-users", str(tmp_path / "users")])
    settings = options.config.settings
    assert (settings.slow_spp, settings.spp_users) == ("coalesce", tmp_path / "users")


def test_the_configuration_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bussrv.toml").write_text('slow = "spp=coalesce"\nspp-users = "users"\n')
    options = Options()
    options.parseOptions(["--config", "bussrv.toml"])
    settings = options.config.settings
    assert (settings.slow_spp, settings.spp_users) == ("coalesce", tmp_path / "users")


@pytest.mark.processes
def test_a_server_does_not_start_with_a_file_that_makes_no_sense(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann:s3cret\n")
    with pytest.raises(RuntimeError, match=r"bussrv: --spp-users: .*users, line 1: not of the form"):
        ForkedServer("off", ["--spp-users", str(tmp_path / "users")])


@pytest.mark.processes
def test_a_server_that_asks_who_watches(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(ANN)
    with ForkedServer("off", ["--spp-users", str(tmp_path / "users"), "--slow", "spp=coalesce"]) as server:
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
        assert server.stop() == 0
    assert not [line for line in server.lines if "Traceback" in line or "s3cret" in line]
