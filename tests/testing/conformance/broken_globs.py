"""Deliberately broken patterns of a format's own: those of the page for authors, each with one fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from bussrv.interfaces import IWireFormat
from bussrv.testing.conformance.adapter import Adapter
from tests.docs.pages import blocks
from tests.testing.conformance import lines


class Fault(NamedTuple):
    """:ivar old: what stands on the page. :ivar new: what stands there instead. :ivar words: of the sentence."""

    name: str
    old: str
    new: str
    words: str
    promise: str = "finer-patterns-are-kept-apart"


FAULTS = (
    Fault(
        "encodings are equal that have as many patterns",
        "frozenset(wanted)",
        "len(filters)",
        "a client whose patterns cover kit/milk is given ['kit/tea'] of kit/tea",
    ),
    Fault(
        "encodings are equal whose names are",
        'tuple(options["globs"]) if options else ()',
        "()",
        "a client whose patterns cover kit/milk is given ['kit/tea'] of kit/tea",
    ),
    Fault(
        "all is given that the pattern of the bus covers",
        "fnmatchcase(name, each) for",
        "True for",
        "a client whose patterns cover kit/milk is given ['kit/tea'] of kit/tea",
    ),
    Fault(
        "of several patterns the last one counts",
        'options["globs"]]',
        'options["globs"][-1:]]',
        "a client whose patterns cover kit/tea and kit/milk is given [] of kit/tea",
    ),
)

SOUND = Fault("nothing", "GlobLink", "GlobLink", "")


def adapter() -> Adapter:
    """The adapter of the page, with patterns."""
    made = lines.adapter()

    class Globbing(made.client):  # type: ignore[misc,name-defined]
        def subscribe_finer(self, service: str, wanted: str, _: str) -> bytes:
            return f"SUB {service}/{wanted.removeprefix(service)[1:2]}*\n".encode()

    kind: Any = type(made)
    found: Adapter = type("GlobAdapter", (kind,), {"client": Globbing})()
    return found


def finding(fault: Fault) -> Callable[[str], IWireFormat]:
    """Finds the format of the page with the link of the page, which has a fault."""
    module, link = lines.fresh(), dict[str, Any]()
    (source,) = (each for each in blocks(lines.PAGE, "python") if "class GlobLink" in each)
    assert source.count(fault.old) == 1, f"{fault.name}: what it changes is not on the page"
    exec(source.replace(fault.old, fault.new), link)

    class Globbing(module["LinesProtocol"]):  # type: ignore[misc]
        LINK: ClassVar[Any] = link["GlobLink"]

        def opened(self) -> None:
            self.globs: list[str] = []

        async def sub(self, name: str, _: str) -> None:
            if not name.endswith("*"):
                await self.subscribe(name)
                return
            self.globs.append(name)
            await self.subscribe(f"{name.rpartition('/')[0]}/#", {"globs": list(self.globs)}, or_pattern=True)

    module["LinesProtocol"] = Globbing
    return lines.finding(module)
