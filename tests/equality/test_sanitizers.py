"""The compiled module under AddressSanitizer and UndefinedBehaviorSanitizer: no read or write out of place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.size import sized

ROOT = Path(__file__).parents[2]
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g", "-O1")

# The module that was built for this stands in for the installed one.
PROGRAM = """
import importlib.util, sys
from random import Random
spec = importlib.util.spec_from_file_location("bussrv._speedups", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.modules["bussrv._speedups"] = module
import bussrv
bussrv._speedups = module
from bussrv.compiled import SPEEDUPS
assert SPEEDUPS is module
from tests.equality import plain
from tests.equality.compiled import compare, compare_forwarded, play
from tests.fuzz.draw import Draw
took = 0
for seed in range(int(sys.argv[2])):
    source = Random(seed)
    stream = plain.stream(Draw(source.randbytes(1000)), 12)
    took += compare(stream)[0]
    for end in range(0, len(stream), 97):
        compare(stream[:end])  # in memory of just that size
    stream = plain.stream(Draw(source.randbytes(1000)), 12, is_forwarded=True)
    took += compare_forwarded(stream)[0]
    for end in range(0, len(stream), 97):
        compare_forwarded(stream[:end])
    if not seed % 8:
        play(source.randbytes(1000))
print("took", took)
"""


def _output(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if not done.returncode else ""


def _built(directory: Path, *flags: str) -> tuple[Path, Path]:
    """The module with sanitizers, and the library that has to be loaded before Python."""
    compiler = shutil.which("gcc") or ""
    if not compiler or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("needs gcc and the header files of Python")
    library = Path(_output(compiler, "-print-file-name=libasan.so"))
    if not library.is_absolute():
        pytest.skip("this gcc has no AddressSanitizer")
    module = directory / "_speedups.so"
    include = f"-I{sysconfig.get_path('include')}"
    source = ROOT / "bussrv/_speedups.c"
    flags += ("-shared", "-fPIC", "-DPy_LIMITED_API=0x030A0000", "-Wall", "-Wextra", "-Wconversion", "-Werror", include)
    subprocess.run([compiler, *SANITIZERS, *flags, source, "-o", module], check=True)
    return module, library.resolve()


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(900)
@pytest.mark.parametrize("flag", ["-DNDEBUG", "-U__SSE2__"], ids=["as it is", "without vectors"])
def test_sanitizers_find_nothing(flag: str, tmp_path: Path) -> None:
    module, library = _built(tmp_path, flag)
    environment = {
        **{key: value for key, value in os.environ.items() if key != "BUSSRV_PURE"},
        "LD_PRELOAD": str(library),
        # Python keeps memory until its end. Its own allocator would hide small overruns from the sanitizer.
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-c", PROGRAM, module, str(sized(600))]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    assert int(done.stdout.split()[-1]) > 500
