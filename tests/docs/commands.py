"""A place where the commands of the pages can be run as they are written."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path

from bussrv.journal.pseudonym_keys import new_key
from bussrv.settings import Settings
from bussrv.spool.entries import Append, Claim
from bussrv.spool.file import SpoolFile
from bussrv.spool.store import SpoolStore
from tests.docs.golden import PLACE, SECOND_KEY, private_pem, public_pem
from tests.docs.pages import blocks

FORGETTABLE = (("actor", "ann"), ("peer", "192.168.7.20"))


def examples(page: str) -> list[tuple[str, str]]:
    """Every command ``bussrv`` of a page, and what it prints; ``…`` stands for anything."""
    text = "".join(blocks(page, "console"))
    return re.findall(r"^\$ bussrv (.*)\n((?:[^$].*\n)*)", text, re.MULTILINE)


def says(said: str, wanted: str) -> bool:
    """Whether something was said as it is wanted."""
    return re.fullmatch(".*".join(re.escape(each) for each in wanted.split("…")), said, re.DOTALL) is not None


def prepare(place: Path) -> None:
    """The golden journals, the key of one of them, a file of pseudonyms, and the spools that pages and help name."""
    shutil.copytree(PLACE / "whole", place / "bussrv-journal")
    shutil.copytree(PLACE / "salvaged", place / "salvaged")
    (place / "keys").mkdir()
    for name, text in (("hall.key", private_pem(SECOND_KEY)), ("hall.key.pub", public_pem(SECOND_KEY))):
        (place / name).write_bytes(text)
    (place / "pseudonyms").write_bytes(b"".join(new_key(kind, identity)[1] for kind, identity in FORGETTABLE))
    with closing(SpoolStore(SpoolFile(place / "journal.spool").open(), Settings(), lambda: 0)) as spool:
        spool.begin()
        for owner, actor in (("phone-1", "ann"), ("sensor-7", "sensors")):
            message = Append(owner=owner, kind="queue", payload=b"23.5")
            spool.apply([Claim(owner=owner, actor=actor, address="10.0.0.1"), message, message])
        spool.commit()
    shutil.copytree(place / "journal.spool", place / "bussrv-journal.spool")
    for secret in ("hall.key", "pseudonyms"):
        (place / secret).chmod(0o600)
