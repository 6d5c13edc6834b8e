"""Killed in the middle of its work, again and again, a spool still holds everything that was confirmed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bussrv.spool.file import NAME
from tests.size import sized
from tests.spool.load import LIMITS
from tests.spool.support import Scene

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
KILLS = sized(12)


def run_and_kill(directory: Path, boot: str, after: int) -> list[list[str]]:
    """What a process said until it was killed, some time after so many lines."""
    command = [sys.executable, "-m", "tests.spool.load", str(directory), boot]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(after)]
        process.kill()
        lines += process.stdout.read().splitlines(keepends=True)
    assert process.returncode == -9
    # The last line may be cut short.
    return [line.split() for line in lines if line.endswith("\n")]


def test_what_was_confirmed_is_there_after_kill_9(tmp_path: Path) -> None:
    directory = tmp_path / "spool"
    confirmed: dict[int, str] = {}
    leaving: set[int] = set()
    gone: set[int] = set()
    for number in range(KILLS):
        boot = f"boot{number}"
        # A spread of moments; when exactly the signal arrives is up to the machine.
        said = run_and_kill(directory, boot, after=1 + number * number * 23)
        kept = {int(words[1]): words[2] for words in said if words[0] == "kept"}
        assert not confirmed or min(kept) > max(confirmed), "no number is used again"
        confirmed.update(kept)
        leaving.update(int(words[1]) for words in said if words[0] == "leaves")
        gone.update(int(words[1]) for words in said if words[0] == "gone")
        scene = Scene(directory)
        scene.settings = LIMITS
        scene.start()
        found: dict[int, str] = {}
        while not (page := scene.page(after=max(found, default=0), most=500)).is_last or page.entries:
            for each in page.entries:
                name, _, rest = each.payload.decode().rpartition(".")
                assert set(rest) <= {"x"}
                found[each.number] = name
        assert {key: value for key, value in confirmed.items() if key not in found} == {
            key: confirmed[key] for key in leaving - found.keys()
        }
        assert not gone & found.keys()
        assert {key: found[key] for key in found.keys() & confirmed.keys()}.items() <= confirmed.items()
        # Both changes of a call, or none: the last call that is there has both.
        state = {each.key: int(each.payload) for each in scene.page(kind="state").entries}
        last = max((int(name.rpartition(".")[2]) for name in found.values() if name.startswith(f"{boot}.")), default=0)
        assert state.get(boot, 0) >= last
        assert scene.counters == {}
        scene.close()
        assert sorted(each.name for each in directory.iterdir()) == ["lock", NAME]
    assert len(confirmed) > KILLS
