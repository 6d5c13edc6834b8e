"""Write the tables of the kit's page: ``python docs/_ext/conformance_table.py`` takes them from the kit.

``tests/testing/conformance/test_page.py`` compares the page with them; other tests of the same directory judge the
formats.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bussrv.testing.conformance.adapter import CAPABILITIES
from bussrv.testing.conformance.formats.known import OWN, adapter_of
from bussrv.testing.conformance.judging import PROMISES

PAGE = Path(__file__).parents[2] / "docs/reference/conformance.md"
BEGIN, END = "<!-- tables: docs/_ext/conformance_table.py -->\n", "<!-- end of tables -->\n"


def tables() -> str:
    """What stands between the marks."""
    return "\n".join([*_capabilities(), "", *_promises(), ""])


def _capabilities() -> Iterator[str]:
    yield "## Capabilities\n"
    yield "| capability | meaning |\n|---|---|"
    yield from (f"| `{name}` | {meaning} |" for name, meaning in CAPABILITIES.items())


def _promises() -> Iterator[str]:
    adapters = [adapter_of(name) for name in OWN]
    yield "## Promises, and results of the six formats\n"
    yield (
        "✓: kept; our tests judge all six formats. –: the promise needs a capability that the format lacks; the "
        "reasons are below. No format of bussrv has `finer`, patterns that are finer than those of the bus. "
        "*process*: a server in a process of its own is needed.\n"
    )
    yield f"| promise | {' | '.join(f'`{each.name}`' for each in adapters)} |\n|---|{'---|' * len(adapters)}"
    for each in PROMISES:
        results = " | ".join("✓" if adapter.why_not(each.needs) is None else "–" for adapter in adapters)
        process = " *process*" if each.is_real else ""
        yield f"| **{each.name}**{process}: {each.says} | {results} |"
    yield "\n| format | lacks | reason |\n|---|---|---|"
    for adapter in adapters:
        yield from (f"| `{adapter.name}` | `{name}` | {reason} |" for name, reason in adapter.absent.items())


def page(text: str) -> str:
    """A page with the present tables."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
