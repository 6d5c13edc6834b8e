"""What the pages say is so: options, codes, transcripts, the plugin."""

import json
import os
import re
import runpy
import shlex
import signal
import socket
import subprocess
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from bussrv.client.objects import BusError, ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.errors import COUNTERS, REASONS
from bussrv.journal.reading import read_journal
from bussrv.net.session.input_states import InputEvent, State
from bussrv.server.configuration.options import Options, StartError
from bussrv.testing.server import TWISTD, RunningServer
from bussrv.wire import inbus, spp
from bussrv.wire.objects import BusObject, ObjectReader, encode
from bussrv.wire.spp import SppReader
from tests.docs.pages import PAGES, ROOT, blocks, page, rows
from tests.forked import ForkedServer


def test_the_tables_of_codes_and_counters_are_those_in_the_code() -> None:
    """``REASONS`` and ``COUNTERS`` of ``bussrv/errors.py``, in their order."""
    shown = [(row[0].strip("`"), row[1]) for row in rows("docs/errors.md")]
    codes = [("code", "meaning"), *REASONS.items()]
    counters = [("counter", "what it counts"), *COUNTERS.items()]
    assert shown == [*codes, *counters]


def test_the_tables_of_options_are_those_in_the_code() -> None:
    """``python docs/_ext/option_tables.py`` writes them."""
    tables = runpy.run_path(str(ROOT / "docs/_ext/option_tables.py"))
    marked = [page for page in (ROOT / "docs").rglob("*.md") if tables["groups"](page.read_text())]
    assert [page.name for page in marked if tables["with_tables"](page.read_text()) != page.read_text()] == []
    groups = {each.group.name for each in Options().table}
    assert sorted(name for page in marked for name in tables["groups"](page.read_text())) == sorted(groups)


def test_the_page_of_the_admin_api_is_made_from_its_routes() -> None:
    """``python docs/_ext/admin_api.py`` writes it."""
    made = runpy.run_path(str(ROOT / "docs/_ext/admin_api.py"))
    page = made["PAGE"].read_text()
    assert made["with_tables"](page) == page
    assert all(f"### `{row.method} {row.path}`" in page for row in made["ROUTES"])
    assert all(f"| `{code}` |" in page for code in made["PROBLEMS"])


def test_the_configuration_file_is_one(tmp_path: Path) -> None:
    (text,) = blocks("docs/reference/options.md", "toml")
    (tmp_path / "bussrv.toml").write_text(text)
    options = Options()
    options.parseOptions(["--config", str(tmp_path / "bussrv.toml")])
    assert options.config.endpoints["objects"] == "tcp:7890"
    assert "spp" not in options.config.endpoints
    assert options.config.settings.max_outbound == 4 << 20


def test_the_lines_of_a_refused_start_are_written_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (wanted,) = [block for block in blocks("docs/reference/options.md", "text") if block.startswith("bussrv: ")]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BUSSRV_SLOW", "abc")
    Path("bussrv.toml").write_text("\n\nmax-payload = 0\n")
    with pytest.raises(StartError):
        Options().parseOptions(["--config=bussrv.toml", "--max-sessions=many"])
    assert capfd.readouterr().err == wanted


def test_the_threat_model_names_tests_that_exist() -> None:
    named = re.findall(r"`(tests/[^`]+)`", (ROOT / "docs/threat-model.md").read_text())
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_row_of_the_threat_model_names_a_test() -> None:
    tables = page("docs/threat-model.md").split("| figure | test |\n")[1:]
    without = [line for table in tables for line in table.split("\n\n")[0].splitlines()[1:] if "`tests/" not in line]
    assert len(tables) == 8
    assert without == []


def test_every_page_begins_with_its_readers() -> None:
    for path in PAGES:
        title, _, rest = path.read_text().partition("\n\n")
        if path.name != "README.md":
            assert title.startswith("# "), path
            assert rest.startswith("For "), path


@pytest.mark.dear
def test_the_picture_of_the_imports_is_current() -> None:
    """``python docs/_ext/import_picture.py`` writes it."""
    drawn = runpy.run_path(str(ROOT / "docs/_ext/import_picture.py"))
    assert drawn["PICTURE"].read_text() == drawn["picture"]()


def test_the_picture_of_the_states_of_input_is_current() -> None:
    """``python docs/_ext/state_picture.py`` writes it. It shows every state, and every event but two."""
    drawn = runpy.run_path(str(ROOT / "docs/_ext/state_picture.py"))
    assert drawn["PICTURE"].read_text() == drawn["picture"]()
    assert drawn["AT"].keys() == set(State)
    assert {each for events in drawn["arrows"]().values() for each in events} == {
        event.name for event in InputEvent if event not in (InputEvent.CUT, InputEvent.END)
    }
    named = re.findall(r"`(bussrv[\w.]*):([\w.]+)`", page("docs/explanation/input-states.md"))
    assert [each for each in named if not hasattr(import_module(each[0]), each[1].partition(".")[0])] == []


def test_the_tables_of_rooms_are_current() -> None:
    """``python docs/_ext/room_tables.py`` writes them."""
    written = runpy.run_path(str(ROOT / "docs/_ext/room_tables.py"))
    assert written["PAGE"].read_text("utf-8") == written["page"]()


def test_the_five_walks_are_short_and_name_existing_functions() -> None:
    text = page("docs/explanation/walks.md")
    inputs = re.findall(r"(?m)^## .*?(?=^##)", text + "\n##", re.DOTALL)
    assert len(inputs) == 5
    missing = []
    for each in inputs:
        steps = re.split(r"(?m)^\d+\. ", each)[1:]
        assert len(steps) <= 12
        for step in steps:
            named = re.findall(r"`(bussrv[\w.]*):([\w.]+)`", step)
            assert named, step
            missing += [f"{module}:{name}" for module, name in named if not exists(module, name)]
    assert missing == []


def exists(module: str, name: str) -> bool:
    """Whether a module has a function or method of this qualified name."""
    try:
        return callable(attrgetter(name)(import_module(module)))
    except (ImportError, AttributeError):
        return False


def test_links_between_pages_lead_somewhere() -> None:
    for path in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists() or (ROOT / target).exists(), f"{path.name}: {target}"


def transcript(name: str) -> list[tuple[str, str]]:
    """Every line of a page's transcripts: its direction, and what was said."""
    lines = "".join(blocks(name, "text")).splitlines()
    return [(line[:2], line[3:]) for line in lines if line.startswith(("->", "<-"))]


@pytest.mark.processes
@pytest.mark.parametrize("name", ["objects", "business"])
def test_transcripts_of_objects(name: str, tmp_path: Path) -> None:
    """What a client says in them is answered as they say, but for routing ids."""
    lines = transcript(f"docs/reference/protocols/{name}.md")
    assert lines
    with ForkedServer(tmp_path / "journal") as server:
        port = server.port(name)
        with ObjectsClient(port=server.port("objects")) as service:
            service.subscribe()
            service.register("tv")
            with socket.create_connection(("127.0.0.1", port), 10) as client:
                reader = ObjectReader()
                for direction, said in lines:
                    wanted = parse(said)
                    if direction == "->":
                        client.sendall(encode(wanted.metadata, wanted.payload))
                    else:
                        assert same(receive(client, reader), wanted), said


@pytest.mark.processes
def test_transcript_of_a_link(tmp_path: Path) -> None:
    """The page is the other server; ``ann`` is a member of this one, and provides ``tv``."""
    with ForkedServer(tmp_path / "journal", ["--server-id", "hall", "--link-allow", "127.0.0.1"]) as server:
        port = server.port("objects")
        with ObjectsClient(port=port) as ann, socket.create_connection(("127.0.0.1", port), 10) as cellar:
            ann.subscribe(**{"routing-id": "ann"})
            ann.register("tv")
            reader = ObjectReader()
            for direction, said in transcript("docs/reference/protocols/links.md"):
                wanted = parse(said)
                if direction == "->":
                    cellar.sendall(encode(wanted.metadata, wanted.payload))
                else:
                    assert same(receive(cellar, reader), wanted), said
            note = ann.wait_for(lambda each: each.metadata["event"] == "note").metadata
            assert note["route"] == ["bob", "cellar", "hall"]


def test_the_commands_that_link_servers_are_understood() -> None:
    text, _ = blocks("docs/how-to/link-servers.md", "console")
    configs = []
    for line in text.splitlines():
        prompt, _, command = line.partition("$")
        options = Options()
        options.parseOptions(shlex.split(command.partition(" bussrv ")[2]))
        assert options.config.server_id == prompt
        configs.append(options.config)
    assert [each.link for each in configs] == [(), ("tcp:hall:7890",), ("tcp:hall:7890", "tcp:cellar:7890")]
    assert [len(each.settings.link_allow) for each in configs] == [1, 1, 0]


def parse(said: str) -> BusObject:
    reader = ObjectReader()
    reader.feed(said.replace("\\0", "\0").encode())
    found = reader.next_event()
    assert isinstance(found, BusObject), said
    assert reader.next_event() is None
    return found


def receive(client: socket.socket, reader: ObjectReader) -> BusObject:
    while (event := reader.next_event()) is None:
        reader.feed(client.recv(4096))
    assert isinstance(event, BusObject)
    return event


def same(got: BusObject, wanted: BusObject) -> bool:
    """Whether an object is the wanted one; ``…`` stands for anything."""
    fields: dict[str, Any] = wanted.fields()
    shown = {key: value if "…" not in str(fields.get(key)) else fields[key] for key, value in got.fields().items()}
    return shown == fields and got.payload == wanted.payload


def test_transcripts_of_inbus() -> None:
    for direction, said in transcript("docs/reference/protocols/inbus.md"):
        datagram = inbus.decode(said.encode())
        assert inbus.encode(datagram) == said.encode()
        assert direction == "->" or datagram.opcode == inbus.PUBLISH


def test_transcripts_of_spp() -> None:
    for direction, said in transcript("docs/reference/protocols/spp.md"):
        packet, _, meaning = said.partition("   ")
        reader = SppReader("client" if direction == "->" else "server")
        reader.feed(b"".join(each[1:2].encode() if each[0] == "'" else bytes.fromhex(each) for each in packet.split()))
        event = reader.next_event()
        assert type(event).__name__.lower() == meaning.split()[0].rstrip(":")
        assert reader.next_event() is None
        assert len(reader) == 0


@pytest.mark.processes
def test_the_plugin_of_the_page_is_served(tmp_path: Path) -> None:
    module, plugin, *_ = blocks("docs/how-to/plugins.md", "python")
    (tmp_path / "lines_format.py").write_text(module)
    (tmp_path / "twisted/plugins").mkdir(parents=True)
    (tmp_path / "twisted/plugins/lines_plugin.py").write_text(plugin)
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with RunningServer(tmp_path / "journal", ["--lines", "0"], environment) as server:
        with (
            ObjectsClient(port=server.port("objects")) as client,
            socket.create_connection(server.addresses["lines"], 10) as person,
        ):
            client.subscribe(receive_mode="no_echo")
            client.register("tv")
            said = person.makefile("rb")
            person.sendall(b"SUB tv\nSUB bad\x01name\n")
            assert said.readline() == b"# subscribed to tv\n"
            assert said.readline().startswith(b"# a service name holds no")
            client.send({"type": "text/plain"}, b"channel 5")
            assert said.readline() == b"tv channel 5\n"
            person.sendall(b"PUB door open\nPUB bus/x y\n")
            published = client.wait_for(lambda each: each.metadata.get("sender") == "door")
            assert published.payload == b"open"
            assert said.readline().startswith(b"# names that begin with bus/")
            assert [found["protocol"] for found in client.discover("door")] == ["lines"]
            person.sendall(b"SUB door\n")
            assert [said.readline() for _ in range(2)] == [b"# subscribed to door\n", b"door open\n"]
        assert server.stop() == 0
    command, variables = [*TWISTD, "bussrv", "--help"], {**os.environ, **environment}
    assert b"--lines=" in subprocess.run(command, check=True, capture_output=True, env=variables).stdout
    started = next(read_journal(tmp_path / "journal")).event
    assert sorted(started.formats) == ["business", "inbus", "lines", "objects", "spp"]


@pytest.mark.processes
def test_the_service_of_the_page_is_hosted(tmp_path: Path) -> None:
    _, _, _, module, plugin, *_ = blocks("docs/how-to/plugins.md", "python")
    (tmp_path / "headcount.py").write_text(module)
    (tmp_path / "twisted/plugins").mkdir(parents=True)
    (tmp_path / "twisted/plugins/headcount_plugin.py").write_text(plugin)
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with RunningServer(tmp_path / "journal", ["--services", "headcount"], environment) as server:
        with SppClient(port=server.port("spp")) as watcher, ObjectsClient(port=server.port("objects")) as client:
            watcher.wait_for(lambda event: event == spp.Offer("headcount"))
            client.subscribe()
            watcher.subscribe("headcount")
            assert watcher.wait_for(lambda event: isinstance(event, spp.Info)) == spp.Info("headcount", b"3")
            for _ in range(2):
                with pytest.raises(BusError, match="those of services and topics of the server itself"):
                    client.register("Headcount")
                server.process.send_signal(signal.SIGHUP)
                while "reloaded the configuration" not in server.next_line():
                    pass
            client.close()
            assert watcher.wait_for(lambda event: isinstance(event, spp.Info)) == spp.Info("headcount", b"2")
        assert server.stop() == 0


@pytest.mark.processes
def test_the_checker_of_the_page_is_asked(tmp_path: Path) -> None:
    *_, module, plugin = blocks("docs/how-to/plugins.md", "python")
    (tmp_path / "door_code.py").write_text(module)
    (tmp_path / "code").write_text("1234\n")
    (tmp_path / "twisted/plugins").mkdir(parents=True)
    (tmp_path / "twisted/plugins/door_code_plugin.py").write_text(plugin)
    options = ["--auth", f"code:{tmp_path / 'code'}"]
    with RunningServer(tmp_path / "journal", options, {"PYTHONPATH": f"{tmp_path}:{ROOT}"}) as server:
        with ObjectsClient(port=server.port("objects")) as client:
            with pytest.raises(BusError, match="there is no such user"):
                client.subscribe(user="ann", secret="4321")
            client.subscribe(user="ann", secret="1234")
        assert server.stop() == 0


@pytest.mark.processes
def test_transcript_of_a_service_of_the_server(tmp_path: Path) -> None:
    with (
        ForkedServer(tmp_path / "journal") as server,
        socket.create_connection(("127.0.0.1", server.port("objects")), 10) as client,
    ):
        reader = ObjectReader()
        for direction, said in transcript("docs/reference/services.md"):
            head, _, payload = said.partition("\\0")
            wanted = json.loads(head)
            if direction == "->":
                client.sendall(encode(wanted))
            else:
                got = receive(client, reader)
                assert got.fields() == wanted
                assert len(got.payload) == wanted.get("size", 0)
                assert bool(got.payload) == bool(payload)


def test_no_snippet_is_left_untested() -> None:
    """A page that gets its first snippet in a language gets a test for it, and a place in this table."""
    tested = {
        ("README.md", "sh"), ("README.md", "python"), ("README.md", "text"), ("README.md", "console"),
        *((f"docs/how-to/{name}.md", "python") for name in ("audit", "clients", "expose", "lan", "plugins")),
        *((f"docs/how-to/{name}.md", "python") for name in ("client-recipes", "embed", "plain-clients")),
        ("docs/how-to/test-in-memory.md", "python"),
        *((f"docs/how-to/{name}.md", "console") for name in ("disaster", "journal-keys", "lan", "link-servers")),
        ("docs/how-to/upgrade.md", "console"), ("docs/how-to/kafka.md", "console"),
        ("docs/how-to/nats.md", "console"), ("docs/how-to/nats.md", "text"), ("docs/tutorial/cluster.md", "console"),
        ("docs/tutorial/incident.md", "console"),
        ("docs/reference/protocols/nats.md", "text"),
        *(("docs/reference/conformance.md", each) for each in ("python", "console", "text")),
        ("docs/how-to/ship-journals.md", "console"),
        *(("docs/how-to/evidence.md", each) for each in ("console", "bash")),
        ("docs/how-to/pseudonyms.md", "console"), ("docs/how-to/pseudonyms.md", "json"), ("docs/how-to/lan.md", "toml"),
        ("docs/how-to/link-servers.md", "toml"),
        ("docs/how-to/expose.md", "console"), ("docs/how-to/expose.md", "text"),
        *((f"docs/how-to/audit-{name}.md", "console") for name in ("cluster", "hdfs", "object-store")),
        ("docs/how-to/audit.md", "console"),
        ("docs/how-to/audit-object-store.md", "python"),
        ("docs/how-to/run.md", "console"), ("docs/how-to/users.md", "console"),
            ("docs/how-to/policy.md", "console"), ("docs/how-to/policy.md", "toml"),
        *((f"docs/reference/protocols/{name}.md", "text") for name in ("objects", "business", "links", "inbus", "spp")),
        *(("docs/reference/protocols/mqtt.md", each) for each in ("sh", "python")),
        ("docs/how-to/dashboard.md", "console"),
        *(("docs/how-to/tap.md", each) for each in ("console", "json", "sh")),
        *((f"docs/how-to/{name}.md", each) for name in ("wireshark", "witnesses") for each in ("console", "sh")),
        *(("docs/reference/protocols/websocket.md", each) for each in ("html", "sh", "text")),
        *(("docs/how-to/other-languages.md", each) for each in ("bash", "c", "console", "html", "javascript")),
        *(("docs/how-to/shell.md", each) for each in ("console", "json")),
        *(("docs/reference/command-line.md", each) for each in ("sh", "toml")),
        ("docs/reference/options.md", "toml"), ("docs/reference/options.md", "text"),
        ("docs/how-to/spark-source.md", "python"),
        *(("docs/how-to/home-assistant.md", each) for each in ("console", "python", "toml")),
        ("docs/reference/services.md", "sh"),
        ("docs/reference/services.md", "text"), ("docs/reference/log.md", "text"), ("docs/reference/log.md", "json"),
            *(("docs/how-to/incidents.md", each) for each in ("console", "text", "toml")),
            ("docs/how-to/monitor.md", "console"), ("docs/how-to/monitor.md", "sh"),
        ("docs/reference/journal-format/index.md", "json"), ("docs/reference/journal-tools.md", "console"),
        ("docs/reference/audit/timeline.md", "console"), ("docs/reference/audit/timeline.md", "python"),
        # The README has it, too.
        ("docs/index.md", "sh"),
        ("docs/reference/audit/report.md", "python"),
        ("docs/how-to/admin.md", "console"), ("docs/reference/admin-api.md", "json"), ("docs/how-to/why.md", "console"),
    }  # fmt: skip
    languages = ("sh", "python", "text", "toml", "console", "json", "html", "javascript", "c", "bash")
    found = {(str(path.relative_to(ROOT)), each) for path in PAGES for each in languages if blocks(str(path), each)}
    assert found <= tested
