"""The options of an uplink to NATS: what cannot be used is refused in one sentence."""

from pathlib import Path

import pytest

from bussrv.errors import ConfigError
from bussrv.uplink.nats.settings import PASSWORD, Settings, settings_of
from tests.tables import each_row

DEFAULTS = {
    **dict.fromkeys(("bus", "bus_ca", "bus_certificate", "bus_key", "bus_token_file", "journal", "metrics")),
    **dict.fromkeys(("nats_user", "nats_password_file", "nats_credentials", "nats_ca", "nats_certificate", "nats_key")),
    "net": "office",
    "keep": (),
    "keep_age": 60.0,
    "keep_size": 1 << 20,
    "state": Path("state"),
    "lapse": 5.0,
    "max_payload": 1 << 20,
    "log_format": "text",
}


def settings(url: str = "nats://hall.example", **options: object) -> Settings:
    return settings_of(url, **{**DEFAULTS, **options})  # type: ignore[arg-type]


@each_row(
    ("url", "options", "complaint"),
    [
        ("nats://", {}, "no URL of NATS"),
        ("nats://hall.example,", {}, "no URL of NATS"),
        ("nats://hall.example:0", {}, "no URL of NATS"),
        ("nats://hall.example:x", {}, "no URL of NATS"),
        ("nats://ann:1234@hall.example", {}, "no URL of NATS"),
        ("nats://hall.example/x", {}, "no URL of NATS"),
        ("nats://hall", {"bus": "hall.example"}, "--bus hall.example"),
        ("nats://hall", {"bus": "ws://hall.example"}, "linked over bus://, buss:// or unix:"),
        ("nats://hall", {"bus": "bus://hall.example", "bus_token_file": "secret"}, "in the clear"),
        ("nats://hall", {"bus_ca": Path("/nowhere")}, "No such file"),
        ("nats://hall", {"nats_ca": Path("/nowhere")}, "No such file"),
        ("nats://hall", {"nats_user": "ann"}, f"needs a password.*{PASSWORD}"),
        ("nats://hall", {"nats_password_file": "1234"}, "needs --nats-user"),
        ("nats://hall", {"nats_user": "ann", "nats_password_file": "1\n2"}, "not printable ASCII"),
        ("nats://hall", {"net": "a.b"}, "--net a.b: the name of a net"),
        ("nats://hall", {"keep": ("tv/#",)}, "--keep tv/#: a pattern"),
        ("nats://hall", {"keep": ("",)}, "--keep : "),
        ("nats://hall", {"metrics": "x"}, "--metrics x"),
    ],
)
def test_what_cannot_be_used_is_named(url: str, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        settings(url, **options)


def test_what_is_not_said_has_a_default() -> None:
    found = settings("tls://hall.example,attic.example:4333", bus_token_file="secret", keep=("tv", "tv"))
    assert found.engine.urls == ("tls://hall.example", "tls://attic.example:4333")
    assert found.engine.tls is not None
    assert (str(found.bus), found.node, found.keep.services) == ("bus://127.0.0.1:7890", "uplink/office", ("tv",))
    assert str(settings(bus="unix:/run/servers").bus) == "unix:/run/servers"
    secure = settings(bus="buss://hall.example", bus_token_file="secret").bus
    assert (str(secure), secure.is_private) == ("buss://hall.example:7890", True)
