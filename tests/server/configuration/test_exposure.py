"""Ports that other machines can reach: opened only if clients have to prove who they are there, or by --insecure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bussrv.errors import ConfigError
from bussrv.server.configuration import config
from bussrv.server.configuration.config import Config
from bussrv.server.configuration.exposure import check_endpoints, check_opened
from bussrv.server.configuration.sources import of_command_line
from tests.server.configs import FORMATS, SERVICES
from tests.tables import each_row

USERS, CERTIFICATES = "users:users", "certificates:cn"
MADE = "(bussrv passwd /etc/bussrv/users NAME makes that file)"
ASKING = "ssl:1:privateKey=k:clientCA=ca"


def built(**values: Any) -> Config:
    off = dict.fromkeys((each.name for each in FORMATS), "off")
    given = {"objects": "0", **off, **{name.replace("_", "-"): value for name, value in values.items()}}
    return config.build(of_command_line(given), FORMATS, SERVICES)


def faults(**values: Any) -> list[str]:
    names = [each.name for each in FORMATS if each.name in values]
    return [each.partition(":")[0] for each in check_endpoints(built(**values), names) if each.startswith("--")]


@each_row(
    ("name", "endpoint", "auth", "is_refused"),
    [
        ("objects", "7890", [], False),
        ("objects", "tcp:1:interface=127.0.0.2", [], False),
        ("objects", "tcp:1:127.0.0.1", [], False),
        ("objects", r"tcp:1:interface=\:\:1", [], False),
        ("objects", r"tcp6:1:interface=\:\:1", [], False),
        ("objects", r"tcp:1:interface=\:\:ffff\:127.0.0.1", [], False),
        ("objects", "unix:/run/bus", [], False),
        ("objects", "haproxy:unix:/run/bus", [], False),
        ("objects", "haproxy:tcp:1:interface=127.0.0.1", [], False),
        # Known only when they listen.
        ("objects", "systemd:domain=INET:index=0", [], False),
        ("objects", "tcp:1:interface=eth0", [], False),
        ("objects", "tcp:1", [], True),
        ("objects", "tcp:port=1:interface=", [], True),
        ("objects", "tcp:1:10.0.0.1", [], True),
        ("objects", "tcp:interface=10.0.0.1:port=1", [], True),
        ("business", "tcp6:1", [], True),
        ("spp", r"tcp:1:interface=\:\:", [], True),
        ("spp", "haproxy:tcp:1", [], True),
        ("websocket", "tcp:1", [], True),
        ("websocket", "ssl:1:privateKey=k", [USERS], False),
        ("spp", "ssl:1:privateKey=k", [], True),
        ("spp", ASKING, [], True),
        ("spp", "tcp:1", [USERS], False),
        ("spp", "haproxy:ssl:1:privateKey=k", [USERS], False),
        ("objects", ASKING, [CERTIFICATES], False),
        ("objects", f"haproxy:{ASKING}", [CERTIFICATES], False),
        ("objects", "ssl:1:privateKey=k", [CERTIFICATES], True),
        ("objects", "ssl:1:privateKey=k", [CERTIFICATES, USERS], False),
        ("objects", "tcp:1", [CERTIFICATES], True),
        ("inbus", "udp:1", [], True),
        ("inbus", "udp:1:interface=0.0.0.0", [], True),
        ("inbus", "udp:1:interface=::", [], True),
        ("inbus", "udp:1:interface=::1", [], False),
        ("inbus", "udp:1:interface=127.0.0.1", [], False),
        # Inbus knows no secrets.
        ("inbus", "udp:1", [USERS], True),
    ],
)
def test_an_exposed_port_needs_an_identity(name: str, endpoint: str, auth: list[str], is_refused: bool) -> None:
    assert faults(**{name: endpoint, "auth": auth}) == ([f"--{name}"] if is_refused else [])
    assert faults(**{name: endpoint, "auth": auth, "insecure": True}) == []


@each_row(
    ("auth", "users", "advice"),
    [
        ([], [], ["--auth users:/etc/bussrv/users", "--inbus-user 192.168.7.0/24=devices"]),
        ([USERS], [], ["--inbus-user 192.168.7.0/24=devices"]),
        ([], ["10.0.0.0/8=ann"], ["--auth users:/etc/bussrv/users"]),
        ([USERS], ["10.0.0.0/8=ann"], None),
    ],
)
def test_inbus_needs_users_of_networks_and_something_that_asks(
    auth: list[str], users: list[str], advice: list[str] | None
) -> None:
    said = check_endpoints(built(inbus="udp:7222", auth=auth, inbus_user=users), ["inbus"])
    lines = [each.partition(": ")[2].partition(" (")[0] for each in said[1:-2]]
    assert lines == (advice or [])
    assert bool(said) == (advice is not None)


class Listener:
    def __init__(self, address: str) -> None:
        self.address = address


@each_row(
    ("address", "is_refused"),
    [
        ("systemd 0.0.0.0:7890", True),
        ("tcp 192.0.2.1:7890", True),
        ("systemd [::]:7890", True),
        ("systemd 127.0.0.1:7890", False),
        ("tcp [::1]:7890", False),
        ("unix /run/bus", False),
        ("systemd /run/bus", False),
    ],
)
def test_an_address_that_is_known_only_when_the_port_is_open(address: str, is_refused: bool) -> None:
    listeners: Mapping[str, Any] = {"objects": Listener(address)}
    checked = built(objects="systemd:domain=INET:index=0")
    if is_refused:
        with pytest.raises(ConfigError, match=r"--objects: everybody who reaches .* could use it") as caught:
            check_opened(checked, listeners)
        assert "--insecure" in caught.value.sentences[-1]
    else:
        check_opened(checked, listeners)
    check_opened(built(objects="systemd:domain=INET:index=0", auth=[USERS]), listeners)


def test_the_lines_to_write_are_those_of_the_source(tmp_path: Path) -> None:
    values = {"objects": "tcp:7890", "spp": "tcp:3002:interface=192.168.7.1"}
    others = 'business = "off"\ninbus = "off"\n'
    file = tmp_path / "bus.toml"
    file.write_text("".join(f'{name} = "{value}"\n' for name, value in values.items()) + others)
    by_file = config.build(of_command_line({"config": str(file)}), FORMATS, SERVICES)
    by_certificate = check_endpoints(built(objects="ssl:1:privateKey=k", auth=["certificates:cn"]), ["objects"])
    assert by_certificate[2].startswith("or let the endpoint ask clients for certificates, clientCA=FILE")
    assert check_endpoints(built(**values), values) == [
        "--objects: everybody who reaches this machine could use it, and nobody has to prove who they are",
        "--spp: everybody who reaches 192.168.7.1 could use it, and nobody has to prove who they are",
        f"ask clients who they are: --auth users:/etc/bussrv/users {MADE}",
        "or let objects listen on this machine only: --objects 7890",
        "or let spp listen on this machine only: --spp 3002",
        "or let everybody who reaches a port use it: --insecure",
    ]
    assert [each.rpartition(": ")[2] for each in check_endpoints(by_file, values)[2:]] == [
        f'auth = ["users:/etc/bussrv/users"] {MADE}',
        "objects = 7890",
        "spp = 3002",
        "insecure = true",
    ]
    assert check_endpoints(by_file, values)[0].startswith(f"{file}:1: objects: ")
    # They are lines of TOML that have the effect.
    file.write_text(file.read_text() + "insecure = true\n")
    assert check_endpoints(config.build(of_command_line({"config": str(file)}), FORMATS, SERVICES), values) == []
