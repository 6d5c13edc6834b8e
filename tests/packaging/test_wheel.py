"""What users install: the wheel and the editable tree, each in a virtual environment of its own, used from elsewhere.

Slow for a test (it builds, and installs with all dependencies), but nothing else sees what a wheel lacks.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.size import further

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
# What a source tree is built from; whatever else lies about in the checkout must not matter.
SOURCES = ("contrib", "MANIFEST.in", "pyproject.toml", "setup.py", "README.md", "bussrv", "twisted")
JUNK = shutil.ignore_patterns("__pycache__", "*.pyc", "dropin.cache", "*.egg-info", ".*", "*.so")
PLUGIN = "twisted/plugins/bussrv_plugins.py"
C_FILE, MODULE = "bussrv/_speedups.c", "bussrv/_speedups.abi3.so"

# The code that the compiler makes of the module is not what is tested, and to optimize it takes most of the time.
QUICK_BUILD = {"CFLAGS": "-O0"}
NO_COMPILER = {"CC": "/bin/false"}
CAN_COMPILE = shutil.which("cc") is not None and Path(sysconfig.get_path("include"), "Python.h").exists()
needs_compiler = pytest.mark.skipif(not CAN_COMPILE, reason="needs a C compiler and the header files of Python")

HOT_PATH = "from bussrv.compiled import HOT_PATH; print(HOT_PATH)"

OPTIONS = (
    "--objects",
    "--business",
    "--inbus",
    "--spp",
    "--journal",
    "--journal-sync",
    "--link",
    "--server-id",
    "--config",
)


class Installed:
    """A virtual environment, and an empty directory to use it from."""

    def __init__(self, directory: Path) -> None:
        self.empty = directory / "empty"
        self.empty.mkdir(parents=True)
        self.bin = directory / "venv" / "bin"
        # Without its own pip, the one that runs the tests does the same: that saves half of the time.
        self._run(sys.executable, "-m", "venv", "--without-pip", directory / "venv")

    def pip(self, *arguments: str | Path, **environment: str) -> None:
        """Run pip on this environment."""
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.bin.parent)
        self._run(*pip, *arguments, **environment)

    def run(self, program: str, *arguments: str | Path, **environment: str) -> str:
        """What a program of the environment prints, both streams; it must succeed."""
        return self._run(self.bin / program, *arguments, **environment)

    def _run(self, *command: str | Path, **environment: str) -> str:
        # Nothing of the environment that the tests run in may help.
        unwanted = ("PYTHON", "VIRTUAL_ENV", "BUSSRV_")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)} | QUICK_BUILD
        done = subprocess.run(
            command,
            cwd=self.empty,
            env={**inherited, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source tree: building in the checkout would leave things behind, and see what was left."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=JUNK)
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def from_wheel(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("from-wheel"))


@pytest.fixture(scope="module")
def wheel(source: Path, from_wheel: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    from_wheel.pip("wheel", "--no-deps", "--wheel-dir", directory, source)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module", params=further(["wheel", "editable"]))
def installed(request: pytest.FixtureRequest, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """bussrv as ``pip install`` leaves it, without any extra."""
    if request.param == "wheel":
        environment: Installed = request.getfixturevalue("from_wheel")
        environment.pip("install", "--no-compile", request.getfixturevalue("wheel"))
    else:
        environment = Installed(tmp_path_factory.mktemp("editable"))
        environment.pip("install", "--no-compile", "--editable", source)
    return environment


@pytest.fixture(scope="module")
def files(source: Path) -> set[str]:
    """All files of the package."""
    found = {file.relative_to(source).as_posix() for file in (source / "bussrv").rglob("*") if file.is_file()}
    templates = {f"bussrv/audit/report/templates/{name}" for name in ("page.html", "page.css", "page.js")}
    assert {"bussrv/py.typed", "bussrv/cli/main.py", *templates} <= found
    return found


def test_the_wheel_carries_every_file_of_the_package(wheel: Path, files: set[str]) -> None:
    assert files - names_in(wheel) - {C_FILE} == set()


@pytest.mark.long
def test_the_source_distribution_has_every_file_of_the_package(source: Path, files: set[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--sdist", "--outdir", tmp_path, source]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    contrib = {file.relative_to(source).as_posix() for file in (source / "contrib").rglob("*") if file.is_file()}
    assert {"contrib/prometheus/alerts.yml", "contrib/grafana/bussrv.json"} <= contrib
    assert {*files, *contrib, "twisted/plugins/bussrv_plugins.py", "setup.py"} - names == set()


@needs_compiler
def test_the_wheel_has_the_compiled_module_for_all_versions(wheel: Path, installed: Installed) -> None:
    assert MODULE in names_in(wheel)
    assert "-cp310-abi3-" in wheel.name
    assert installed.run("python", "-c", HOT_PATH) == "C\n"
    assert installed.run("python", "-c", HOT_PATH, BUSSRV_PURE="1") == "Python\n"
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["test-command"]
    program, *arguments = shlex.split(said)
    assert installed.run(program, *arguments) == ""


@pytest.mark.long
def test_building_without_a_compiler_succeeds_without_the_module(source: Path, tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "build", "--build-base", tmp_path]
    if CAN_COMPILE:
        # An earlier build has left a module. It is older than the source, and does not take the place of the new one.
        subprocess.run(command, cwd=source, env={**os.environ, **QUICK_BUILD}, capture_output=True, check=True)
        (left,) = tmp_path.glob(f"lib*/{MODULE}")
        os.utime(left, (0, 0))
    environment = {**os.environ, **NO_COMPILER}
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=True)
    assert "bussrv._speedups" in done.stderr, "it says that it has left the module out"
    built = {file.relative_to(tmp_path).name for file in tmp_path.rglob("bussrv/*") if file.is_file()}
    assert {"compiled.py", "version.py"} <= built
    assert not any(name.endswith(".so") for name in built)


@pytest.mark.long
def test_what_was_installed_without_a_compiler_works(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "source"  # without what other builds have left
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("build", "*.so", "*.egg-info"))
    environment = Installed(tmp_path / "installed")
    environment.pip("install", "--no-compile", "--no-cache-dir", copy, **NO_COMPILER)
    assert environment.run("python", "-c", HOT_PATH) == "Python\n"
    assert "bussrv" in environment.run("twistd", "--help").split()


def test_outside_the_package_the_wheel_has_only_the_plugin(wheel: Path) -> None:
    outside = {name for name in names_in(wheel) if not name.startswith("bussrv/") and ".dist-info/" not in name}
    # An __init__.py there would overwrite Twisted's own, and uninstalling bussrv would take it away.
    assert outside == {PLUGIN}


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_twistd_knows_bussrv(installed: Installed) -> None:
    assert "bussrv" in installed.run("twistd", "--help").split()


def test_twistd_bussrv_lists_its_options(installed: Installed) -> None:
    words = {word.partition("=")[0].rstrip(",") for word in installed.run("twistd", "bussrv", "--help").split()}
    assert set(OPTIONS) - words == set()


def test_the_command_answers_without_spark(installed: Installed) -> None:
    program = "import importlib.util; print(importlib.util.find_spec('pyspark'))"
    assert installed.run("python", "-c", program) == "None\n"
    assert "audit" in installed.run("bussrv", "--help")


def test_every_module_except_the_audit_imports_when_installed(installed: Installed) -> None:
    # The audit and the engines of uplinks need their extras; the conformance kit needs what its users test with.
    program = (
        "import bussrv, importlib, pkgutil\n"
        "apart = ('bussrv.audit.', 'bussrv.testing.', 'bussrv.uplink.kafka.', 'bussrv.uplink.nats.')\n"
        "for each in pkgutil.walk_packages(bussrv.__path__, 'bussrv.'):\n"
        "    if not each.name.startswith(apart) and '__main__' not in each.name:\n"
        "        importlib.import_module(each.name)\n"
        "        print(each.name)"
    )
    assert "bussrv.wire.objects" in installed.run("python", "-c", program).split()


def test_using_it_leaves_nothing_behind(installed: Installed) -> None:
    installed.run("twistd", "bussrv", "--help")
    installed.run("bussrv", "--help")
    assert list(installed.empty.iterdir()) == []


@pytest.mark.long
def test_uninstalling_leaves_twisted_whole(from_wheel: Installed, wheel: Path) -> None:
    from_wheel.pip("install", wheel)
    from_wheel.pip("uninstall", "--yes", "bussrv")
    assert "bussrv" not in from_wheel.run("twistd", "--help").split()
    assert (
        from_wheel.run("python", "-c", "import twisted.plugins; print(twisted.plugins.__file__)")
        .strip()
        .endswith(".py")
    )
