"""The table of options, and its sources: the command line, environment variables and the configuration file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv import options as kinds
from bussrv.errors import ConfigError
from bussrv.options import Option, SlowPolicy, ValueKind
from bussrv.server.configuration import config, option_kinds, option_table
from bussrv.server.configuration.config import Config
from bussrv.server.configuration.option_texts import sample_file, toml_value, usage_text
from bussrv.server.configuration.options import NO_SERVER, Options, StartError
from bussrv.server.configuration.sources import GivenValue, of_environment, of_file
from bussrv.server.log import levels as loglevels
from bussrv.transparency.cosignatures import SigningKey
from bussrv.transparency.notes import COSIGNATURE, ED25519
from tests.server.configs import FORMATS, SERVICES
from tests.size import sized

TABLE = option_table.table(FORMATS, SERVICES)
ROWS = {each.name: each for each in TABLE}


def configured(given_values: Mapping[str, GivenValue]) -> Config:
    return config.build(given_values, FORMATS, SERVICES)


def parsed(arguments: Sequence[str], variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Config:
    """The configuration of a start with these arguments, in an environment of these variables."""
    with monkeypatch.context() as patched:
        patched.setattr("os.environ", dict(variables))
        options = Options()
        options.parseOptions(list(arguments))
    return options.config


def without_places(built: Config) -> Config:
    return replace(built, config=None, places={}, without_effect=())


# Every option through every source.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
NO_COMMA = TEXT.filter(lambda text: "," not in text and text == text.strip())
NETWORKS = st.ip_addresses(v=4).map(str) | st.integers(0, 128).map(lambda bits: f"::/{bits}")


def of_list(kind: Any) -> st.SearchStrategy[Any]:
    of_one = ELEMENTS.get(type(kind.kind), NETWORKS)
    return st.lists(of_one, min_size=1, max_size=3)


WITNESS = "https://attic.example/w " + SigningKey("attic.example/w1", COSIGNATURE, bytes(32)).verifier.text


ELEMENTS: dict[type[ValueKind[Any]], st.SearchStrategy[str]] = {
    kinds.Text: NO_COMMA,
    kinds.WebOrigin: st.sampled_from(["https://Hall.example", "http://*.example:8000", "null", "*", "app://x"]),
    option_kinds.AdminUrl: st.sampled_from(["https://attic.example:7280", "http://127.0.0.1/bus", "https://[::1]:9"]),
    option_kinds.WitnessUrl: st.just(WITNESS),
    option_kinds.LogKey: st.just(SigningKey("hall.example/journal", ED25519, bytes(32)).verifier.text),
    option_kinds.CheckerDescription: st.sampled_from(["users:users", "tokens:/etc/tokens", "certificates:cn", "unix"]),
    option_kinds.UserOfNetwork: st.builds("{}={}".format, NETWORKS, st.sampled_from(["ann", "a b", "x=y"])),
}


VALUES: dict[type[ValueKind[Any]], Callable[[Any], st.SearchStrategy[Any]]] = {
    kinds.Whole: lambda kind: st.integers(kind.least, kind.most),
    kinds.Seconds: lambda kind: st.floats(0, kinds.MAX_SECONDS, exclude_min=not kind.may_be_zero),
    kinds.Flag: lambda _: st.just(True),
    kinds.Choice: lambda kind: st.sampled_from(kind.choices),
    kinds.FilePath: lambda _: TEXT,
    kinds.ListOf: of_list,
    SlowPolicy: lambda _: st.sampled_from(["spp=coalesce", "spp=disconnect"]),
    option_kinds.Endpoint: lambda _: st.integers(0, 65535) | st.just("tcp:7890:interface=192.168.7.1"),
    option_kinds.JournalDirectory: lambda _: TEXT | st.just("off"),
    option_kinds.JournalOrigin: lambda _: st.text("abc./é", min_size=1, max_size=9),
    option_kinds.CommandWords: lambda _: st.sampled_from(["/bin/true", "page 'some body' -x", "a $(b) *"]),
    option_kinds.Url: lambda _: st.sampled_from(["https://alerts.example/hook?key=s", "http://[::1]:8080"]),
    option_kinds.ServiceNames: lambda _: st.sampled_from(["all", "off", "bus/clock", "bus/statistics,bus/clock"]),
    kinds.ServerId: lambda _: TEXT.filter(str.isprintable),
    loglevels.LogLevelsKind: lambda _: st.sampled_from(["debug", "info,journal=debug", "error,twisted=info,bus=warn"]),
}

EVERYTHING = st.fixed_dictionaries(
    {name: VALUES[type(row.kind)](row.kind) for name, row in ROWS.items() if row.in_file}
)


def arguments_of(values: Mapping[str, Any]) -> list[str]:
    lists = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    return [f"--{name}" if value is True else f"--{name}={value}" for name, found in lists.items() for value in found]


def variables_of(values: Mapping[str, Any]) -> dict[str, str]:
    return {
        ROWS[name].variable: ",".join(value) if isinstance(value, list) else "true" if value is True else str(value)
        for name, value in values.items()
    }


def file_of(values: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in values.items())


@settings(max_examples=sized(90))
@given(values=EVERYTHING)
def test_every_option_means_the_same_in_every_source(
    values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("file") / "bussrv.toml"
    path.write_text(file_of(values), encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as monkeypatch:
        line = parsed(arguments_of(values), {}, monkeypatch)
        environment = parsed([], variables_of(values), monkeypatch)
        file = parsed([], {"BUSSRV_CONFIG": str(path)}, monkeypatch)
    assert without_places(line) == without_places(environment) == without_places(file)
    assert line.places == {name: f"--{name}" for name in values}
    assert environment.places == {name: ROWS[name].variable for name in values}
    numbered = enumerate(values, 1)
    assert file.places == {"config": "BUSSRV_CONFIG", **{name: f"{path}:{line}: {name}" for line, name in numbered}}
    # A setting has a value that stands for it.
    for name, value in values.items():
        kind = ROWS[name].kind
        assert kind.check(kind.plain(kind.check(value))) == kind.check(value), name


def test_command_line_overrides_environment_and_that_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bussrv.toml").write_text(
        'max-links = 1\nmax-seen = 1\nmax-linked = 1\nlink = ["tcp:a:1", "tcp:b:1"]\n'
    )
    variables = {
        "BUSSRV_MAX_SEEN": "2",
        "BUSSRV_MAX_LINKED": "2",
        "BUSSRV_CONFIG": "none.toml",
        "BUSSRV_LINK": "tcp:c:1",
    }
    built = parsed(["--max-linked=3", f"--config={tmp_path / 'bussrv.toml'}"], variables, monkeypatch)
    assert (built.settings.max_links, built.settings.max_seen, built.settings.max_linked) == (1, 2, 3)
    assert built.link == ("tcp:c:1",)


# Bad values.
WHOLE = "is not a whole number of 1 or more"
BAD: tuple[tuple[str, str, str], ...] = (
    ("max-sessions", "0", f"'0' {WHOLE}"),
    ("max-sessions", "-1", f"'-1' {WHOLE}"),
    ("max-sessions", "1.5", f"'1.5' {WHOLE}"),
    ("max-sessions", "many", f"'many' {WHOLE}"),
    ("max-sessions", "9" * 20, f"'{'9' * 20}' is more than 9223372036854775807, the most there can be"),
    ("max-sessions", "9" * 5000, f"'{'9' * 199}… is more than 9223372036854775807, the most there can be"),
    ("max-sessions", "", f"'' {WHOLE}"),
    ("listen-backlog", "2147483648", "'2147483648' is more than 2147483647, the most there can be"),
    ("inbus-receive-buffer", "1073741825", "'1073741825' is more than 1073741824, the most there can be"),
    ("journal-min-free", "-1", "'-1' is not a whole number of 0 or more"),
    ("subscribe-timeout", "soon", "'soon' is not a number of seconds"),
    ("subscribe-timeout", "nan", "'nan' is not a number of seconds"),
    ("subscribe-timeout", "-1", "'-1' is not more than 0 seconds"),
    ("subscribe-timeout", "0", "'0' is not more than 0 seconds"),
    ("subscribe-timeout", "inf", "'inf' is more than 10000000000 seconds, the most there can be"),
    ("inbus-lease", "-1", "'-1' is not 0 seconds or more"),
    ("slow", "abc", "'abc' is none of spp=disconnect, spp=coalesce"),
    ("announce", "everybody", "'everybody' is none of members, servers, off"),
    ("journal-sync", "never", "'never' is none of always, interval, off"),
    ("services", "bus/x", "'bus/x' is none of all, off, bus/clock, bus/registry, bus/statistics"),
    ("server-id", "a\tb", r"'a\tb' has characters that cannot be printed"),
    ("server-id", "é" * 128, f"'{'é' * 128}' has 256 bytes, the most is 255"),
    ("journal-key", "", "the text is empty"),
    ("spp", "99999", "99999 is no port: ports are 0 to 65535"),
    ("spp", "somewhere", "'somewhere' is no endpoint, such as tcp:3002:interface=127.0.0.1"),
    ("inbus-allow", "10.0.0.0/99", "'10.0.0.0/99' does not appear to be an IPv4 or IPv6 network"),
    ("link-allow", "10.0.0.1/8", "10.0.0.1/8 has host bits set"),
    ("link", "", "the text is empty"),
    ("websocket", "web", "'web' is no endpoint, such as tcp:7892:interface=127.0.0.1"),
    (
        "websocket-origin",
        "a.example",
        "'a.example' is no origin, such as https://hall.example or http://localhost:8000",
    ),
    ("websocket-origin", "a://b/", "'a://b/' is no origin, such as https://hall.example or http://localhost:8000"),
    ("websocket-ping", "-1", "'-1' is not 0 seconds or more"),
)
HINT = " (see twistd bussrv --help)"


def refusal(arguments: Sequence[str], variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    with pytest.raises(StartError) as caught:
        parsed(arguments, variables, monkeypatch)
    assert caught.value.code == 1
    return str(caught.value)


@pytest.mark.dear
@pytest.mark.parametrize(("option", "text", "said"), BAD)
def test_a_bad_value_is_named_with_its_place(
    option: str, text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text(f'# A comment.\nstrict = true\n"{option}" = {json.dumps(text)}\n')
    variable = ROWS[option].variable
    assert refusal([f"--{option}={text}"], {}, monkeypatch) == f"--{option}: {said}{HINT}"
    assert refusal([], {variable: text}, monkeypatch) == f"{variable}: {said}{HINT}"
    assert refusal(["--config=bad.toml"], {}, monkeypatch) == f"bad.toml:3: {option}: {said}{HINT}"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("strict = 1", "strict: 1 is neither true nor false"),
        ("max-links = true", f"max-links: True {WHOLE}"),
        ("max-links = 1.5", f"max-links: 1.5 {WHOLE}"),
        ("max-links = [1]", f"max-links: [1] {WHOLE}"),
        ("journal-key = 3", "journal-key: 3 is not a text"),
        ("close-timeout = 2026-11-22", "close-timeout: datetime.date(2026, 11, 22) is not a number of seconds"),
        ("link = ['', 'tcp:hall:7890', 3]", "link: the text is empty; 3 is not a text"),
        ("color = 3", "there is no option 'color'"),
        ("config = 'x'", "there is no option 'config'"),
        ("[journal]\nkey = 'x'", "journal: {'key': 'x'} is not a text"),
    ],
)
def test_a_bad_value_of_a_kind_that_only_the_file_has(
    value: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text(f"\n{value}\n")
    assert refusal(["--config=bad.toml"], {}, monkeypatch) == f"bad.toml:2: {said}{HINT}"


@pytest.mark.parametrize("text", ["yes", "1", "", "TRUE"])
def test_a_variable_of_a_flag_is_true_or_false(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed([], {"BUSSRV_STRICT": "true"}, monkeypatch).settings.strict
    assert not parsed([], {"BUSSRV_STRICT": "false"}, monkeypatch).settings.strict
    said = refusal([], {"BUSSRV_STRICT": text}, monkeypatch)
    assert said == f"BUSSRV_STRICT: {text!r} is neither true nor false{HINT}"


def test_bad_values_of_all_sources_are_reported_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bussrv.toml").write_text('strict = true\n\nmax-payload = 0\ncolour = "red"\nmax-links = 0\n')
    variables = {"BUSSRV_SLOW": "abc", "BUSSRV_CONFIG": "bussrv.toml", "BUSSRV_MAX_LINKS": "7"}
    refusal(["--max-sessions=many", "--spp=99999"], variables, monkeypatch)
    assert capfd.readouterr().err.splitlines() == [
        "bussrv: bussrv.toml:4: there is no option 'colour'",
        "bussrv: --spp: 99999 is no port: ports are 0 to 65535",
        f"bussrv: --max-sessions: 'many' {WHOLE}",
        f"bussrv: bussrv.toml:3: max-payload: 0 {WHOLE}",
        f"bussrv: BUSSRV_SLOW: 'abc' is none of spp=disconnect, spp=coalesce{HINT}",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"spp = ", "FILE:1: not TOML: this is not a value; write text in quotes"),
        (b"\nspp = off", "FILE:2: not TOML: this is not a value; write text in quotes"),
        (b"a = 1\na = 2\n", "FILE:2: not TOML: this key stands there already; delete one of the two"),
        (b"\xff", "--config: FILE is not UTF-8"),
        (b"a = " + b"9" * 5000, "FILE: not TOML: Exceeds the limit"),
        (b"a = " + b"[" * 100_000, "FILE: not TOML: it nests too deep"),
    ],
    ids=["value", "text", "twice", "bytes", "digits", "nesting"],
)
def test_a_file_that_is_not_toml(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        of_file(str(path), "--config", TABLE)
    assert str(caught.value).startswith(said.replace("FILE", str(path)))


def test_options_of_a_journal_that_is_off_have_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"BUSSRV_JOURNAL": "off", "BUSSRV_JOURNAL_SYNC": "off"}
    assert parsed(["--journal-key=nokey"], variables, monkeypatch).without_effect == (
        "BUSSRV_JOURNAL_SYNC: has no effect: BUSSRV_JOURNAL is off",
        "--journal-key: has no effect: BUSSRV_JOURNAL is off",
    )
    assert parsed(["--journal-key=key"], {}, monkeypatch).without_effect == ()


def test_a_variable_that_is_no_option_is_ignored() -> None:
    # An orchestrator sets such ones for a service of this name.
    assert of_environment({"BUSSRV_PORT": "tcp://10.0.0.1:7890", "PATH": "/bin"}, TABLE) == {}


# The table itself.
def test_every_row_is_written_for_people() -> None:
    for row in TABLE:
        assert re.fullmatch(r"[A-Z].*\.", row.help), row.name
        # Each text stands alone: it says nothing of another one but by its name.
        assert not re.search(r"\b(the same (for|as)|as above|that rate|so many)\b", row.help), row.name
        assert all(name.strip("`-") in ROWS for name in re.findall(r"--[a-z-]+", row.help)), row.name
        assert (row.default is None) <= bool(row.unset or row.name == "services"), row.name


def test_what_is_opened_at_the_start_is_not_reloadable() -> None:
    fixed = {each.name for each in TABLE if not each.reloadable}
    files = {each.name for each in TABLE if isinstance(each.kind, (option_kinds.Endpoint, kinds.FilePath))}
    read_again = {"policy", "link-token", "admin-token-file", "admin-peer-token-file", "admin-peer-ca", "audit-summary"}
    assert files - read_again <= fixed
    assert {"journal", "journal-sync", "server-id", "listen-backlog", "inbus-receive-buffer"} <= fixed
    assert fixed.isdisjoint({"link", "policy", "max-connects", "max-services", "trusted-network"})


def test_help_names_every_option_with_its_default() -> None:
    shown = str(Options())
    for row in TABLE:
        argument = "" if row.kind.is_flag else "="
        assert f"\n  --{row.name}{argument}\n" in shown
    assert all(f"\n  --{name}\n" in shown for name in NO_SERVER)
    assert "[default: 50000]" in usage_text([ROWS["max-sessions"]], 80)
    assert max(map(len, usage_text(TABLE, 80).splitlines())) <= 80


def uncommented(text: str, chosen: Callable[[Option], bool]) -> str:
    lines = re.findall(r"^#([a-z][a-z0-9-]* = .*)$", text, re.MULTILINE)
    return "".join(f"{line}\n" for line in lines if chosen(ROWS[line.partition(" ")[0]]))


def test_the_sample_file_says_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sample = sample_file(TABLE)
    defaults = configured({})
    for number, text in enumerate((sample, uncommented(sample, lambda row: row.example is None))):
        path = Path(f"{number}.toml")
        path.write_text(text)
        read = of_file(str(path), "--config", TABLE)
        assert read.faults == []
        assert without_places(configured(read.given)) == without_places(defaults)
    # Every row is there, and every example is a value.
    Path("all.toml").write_text(uncommented(sample, lambda _: True))
    read = of_file("all.toml", "--config", TABLE)
    assert list(read.given) == [each.name for each in TABLE if each.in_file]
    assert configured(read.given) != defaults


def test_the_sample_file_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Options().parseOptions(["--sample-config"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == sample_file(TABLE)
