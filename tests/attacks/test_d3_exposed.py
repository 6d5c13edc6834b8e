"""Ports that other machines can reach, and ports that are taken: the start says which option they come from."""

from pathlib import Path

import pytest

from tests.forked import ForkedServer


def test_without_insecure_no_such_port_is_opened(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as refused:
        ForkedServer(tmp_path / "journal", ["--objects", "tcp:0", "--inbus", "udp:0"])
    said = [line for line in str(refused.value).splitlines() if line.startswith("bussrv: ")]
    assert [line.split()[1] for line in said] == ["--inbus:", "--objects:", "ask", "and", "or", "or", "or"]
    assert not any("Traceback" in line for line in said)


def test_secrets_in_the_clear_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "users").touch(0o600)
    with ForkedServer("off", ["--auth", f"users:{tmp_path / 'users'}", "--objects", "tcp:0"]) as server:
        assert server.stop() == 0
    (warning,) = [line for line in server.lines if "WARNING" in line]
    assert "objects listens on every interface without TLS" in warning


@pytest.mark.parametrize(
    ("option", "endpoint", "where"),
    [
        ("objects", "tcp:0", "every interface"),
        ("business", "tcp6:0", "every interface"),
        ("spp", r"tcp:0:interface=\:\:", "every interface"),
        ("inbus", "udp:0", "every interface"),
        ("inbus", "udp:0:interface=::", "every interface"),
        ("objects", "tcp:0:interface=127.0.0.2", None),
        ("spp", r"tcp:0:interface=\:\:1", None),
        ("inbus", "udp:0:interface=::1", None),
        ("business", "unix:SOCKET", None),
    ],
)
def test_what_other_machines_can_reach_is_named_in_a_warning(
    tmp_path: Path, option: str, endpoint: str, where: str | None
) -> None:
    options = ["--insecure", f"--{option}", endpoint.replace("SOCKET", str(tmp_path / "socket"))]
    with ForkedServer("off", options) as server:
        assert server.stop() == 0
    warnings = [line for line in server.lines if "WARNING" in line]
    if where is None:
        assert warnings == []
    else:
        (warning,) = warnings
        assert "#warn]" in warning
        assert f"WARNING: {option} listens on {where}, and everybody who reaches it may use it" in warning
        assert f"--{option} {server.port(option)}" in warning
    assert not any("interface=0.0.0.0" in line for line in server.lines)
