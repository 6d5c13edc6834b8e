"""Journals as they are without seals: then every line and every snapshot of them is judged."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from bussrv.journal import verify as module
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.verify import JournalFault, verify
from bussrv.registry.state.fold import RegistryFold


def faults_without_seals(journal: Path) -> list[JournalFault]:
    """What ``verify`` finds in a copy of a journal that has no manifest any more.

    Left out is what only says that the manifest is not there, or segments that it would say were removed.
    """
    with TemporaryDirectory() as place, patch.object(module, "PATIENCE", 0.0):
        copy = Path(place) / "journal"
        shutil.copytree(journal, copy, ignore=shutil.ignore_patterns(MANIFEST_NAME, "lock"))
        faults = verify(copy, registry=RegistryFold).faults
    return [each for each in faults if each.code != "bad-manifest" and not each.message.endswith("which is not there")]
