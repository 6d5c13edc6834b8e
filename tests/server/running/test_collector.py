"""The garbage collector of a server: no collection makes clients wait long while thousands of them connect."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bussrv.server.running.process import YOUNG

pytestmark = pytest.mark.processes

PROGRAM = """
import gc, json
from bussrv.server.running.process import tune_collector

tune_collector()
looked_at = []

def collecting(phase, about):
    if phase == "start":
        looked_at.append(sum(len(gc.get_objects(each)) for each in range(about["generation"] + 1)))

gc.callbacks.append(collecting)
kept = [[] for _ in range(400_000)]
print(json.dumps(looked_at))
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="collects a part of the older objects at a time")
def test_no_collection_looks_at_many_objects_while_more_come() -> None:
    answer = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout
    looked_at = json.loads(answer)
    assert len(looked_at) >= 19
    assert max(looked_at) < 3.1 * YOUNG
