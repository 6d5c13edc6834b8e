"""What plugins that fail could break at the start."""

import re
import subprocess
from pathlib import Path

from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import FREE_PORTS, TWISTD, RunningServer

ROOT = Path(__file__).parents[2]

BAD_MODULE = "raise RuntimeError('it is broken')\n"

NOWHERE = """
from twisted.application.service import Service

def listen(bus, endpoint, reactor):
    return Service()
"""

BAD_PLUGINS = """
from twisted.plugin import IPlugin
from zope.interface import implementer

from bussrv.plugin import HostedService, IHostedService, IWireFormat, WireFormat


@implementer(IPlugin, IWireFormat)
class NothingAtAll:
    pass


@implementer(IPlugin, IHostedService)
class Raises:
    summary = content_type = "text/plain"

    @property
    def name(self):
        raise RuntimeError("no name today")

    def make(self, host):
        pass


nothing = NothingAtAll()
raises = Raises()
shadow = WireFormat("journal", module="bussrv.formats.spp.protocol", default_endpoint="off", summary="takes an option")
absent = WireFormat("absent", module="no.such.module", default_endpoint="tcp:0:interface=127.0.0.1", summary="absent")
broken = WireFormat("broken", module="broken", default_endpoint="tcp:0:interface=127.0.0.1", summary="broken")
nowhere = WireFormat("nowhere", module="nowhere", default_endpoint="off", summary="says no address")
hosted = HostedService("hosted", module="broken", content_type="text/plain", summary="broken")
"""


def with_plugins(directory: Path) -> dict[str, str]:
    """:returns: the environment in which the bad plugins are installed."""
    plugins = directory / "twisted" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "bad_module_plugin.py").write_text(BAD_MODULE)
    (plugins / "bad_plugins_plugin.py").write_text(BAD_PLUGINS)
    (directory / "broken.py").write_text(BAD_MODULE)
    (directory / "nowhere.py").write_text(NOWHERE)
    return {"PYTHONPATH": f"{directory}:{ROOT}"}


def test_bad_plugins_are_named_and_the_others_are_served(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "journal", ["--services", "all"], with_plugins(tmp_path / "path")) as server:
        with ObjectsClient(port=server.port("objects")) as client:
            client.subscribe()
            client.register("tv")
            assert {each["name"] for each in client.discover()} == {"tv", "bus/clock", "bus/registry", "bus/statistics"}
        assert server.stop() == 0
    assert sorted(server.addresses) == ["admin", "business", "inbus", "objects", "spp"]
    errors = [line for line in server.lines if "#error]" in line]
    for said in (
        r"a plugin is left out: RuntimeError: it is broken \(.*bad_module_plugin.py, line 1\)",
        r"the plugin twisted\.plugins\.bad_plugins_plugin\.NothingAtAll is left out: it has no default_endpoint,",
        r"the plugin twisted\.plugins\.bad_plugins_plugin\.Raises is left out: RuntimeError: no name today",
        r"the plugin 'journal' \(bussrv\.plugin\.WireFormat\) is left out: its name 'journal' cannot be an option",
        r"--absent: not served: .*no\.such\.module",
        r"--broken: not served: RuntimeError: it is broken",
        r"--services: hosted is not provided: RuntimeError: it is broken",
    ):
        assert sum(bool(re.search(said, line)) for line in errors) == 1, said
    assert len(errors) == 7
    # Whoever starts it and does not see the log is told the same.
    aside = [line.removeprefix("bussrv: ") for line in server.lines if line.startswith("bussrv: ")]
    assert sorted(aside) == sorted(line.partition("#error] ")[2] for line in errors)
    # twistd itself says so with a traceback, before anything of bussrv runs; nothing else does.
    assert all(
        "RuntimeError: it is broken" in line
        for line in server.lines
        if "Error: " in line and not (line in errors or line.startswith("bussrv: "))
    )


def refused(tmp_path: Path, *options: str) -> list[str]:
    """The sentences of a start that ends with an error."""
    environment = with_plugins(tmp_path)
    command = [*TWISTD, "-n", "--pidfile=", "bussrv", *FREE_PORTS, "--journal", "off", *options]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment, check=False
    )
    assert ran.returncode == 1
    return [line.removeprefix("bussrv: ") for line in ran.stderr.splitlines() if line.startswith("bussrv: ")]


def test_why_an_option_of_a_bad_plugin_is_unknown_is_said(tmp_path: Path) -> None:
    *_, left_out, unknown = refused(tmp_path, "--nothing", "0")
    assert "is left out: " in left_out
    assert unknown == "option --nothing not recognized (see twistd bussrv --help)"


def test_what_the_operator_asks_for_by_name_is_there_or_nothing(tmp_path: Path) -> None:
    *_, module, service = refused(tmp_path / "one", "--broken", "0", "--services", "bus/clock,hosted")
    assert module == "--broken: not served: RuntimeError: it is broken"
    assert service == "--services: hosted is not provided: RuntimeError: it is broken"
    *_, port = refused(tmp_path / "other", "--nowhere", "tcp:0:interface=127.0.0.1")
    assert port == "--nowhere: not served: TypeError: the address of its port is no text, but NoneType"
