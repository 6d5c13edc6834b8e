"""The format of the page for authors of plugins, and ways to break it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from bussrv.interfaces import IWireFormat
from bussrv.testing.conformance.adapter import Adapter
from bussrv.testing.conformance.judging import installed_format
from tests.docs.pages import blocks

PAGE = "docs/how-to/plugins.md"
installed = cache(installed_format)


@cache
def _code(marker: str) -> Any:
    pages = (PAGE, "docs/reference/conformance.md")
    (source,) = (each for page in pages for each in blocks(page, "python") if marker in each)
    return compile(source, PAGE, "exec")


def fresh(marker: str = "class LinesProtocol") -> dict[str, Any]:
    """The module on the page that has these words."""
    module: dict[str, Any] = {"__name__": "lines_format"}
    exec(_code(marker), module)
    return module


def adapter() -> Adapter:
    made: Adapter = fresh("class LinesAdapter")["LinesAdapter"]()
    return made


class Format:
    """A plugin that a test makes: the format of the page, with the classes of a module."""

    name = "lines"
    summary = "Lines"
    default_endpoint = "tcp:7999"

    def __init__(self, module: dict[str, Any]) -> None:
        self._module = module

    def listen(self, bus: Any, endpoint: str, reactor: Any) -> Any:
        return self._module["listen"](bus, endpoint, reactor)


def finding(module: dict[str, Any]) -> Callable[[str], IWireFormat]:
    """Finds that format, and those that are installed."""
    made: Any = Format(module)
    return lambda name: made if name == "lines" else installed(name)


def __getattr__(name: str) -> Any:
    """``Made``: the class of the adapter on the page, for those who look for it by its place."""
    if name == "Made":
        return type(adapter())
    raise AttributeError(name)
