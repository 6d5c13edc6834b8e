"""The results of the kit as a page in HTML: one file, without scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from bussrv.testing.conformance.adapter import CAPABILITIES, Adapter
from bussrv.testing.conformance.judging import Verdict
from bussrv.version import VERSION

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.45 system-ui, sans-serif; }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid #8886; }
td:last-child { text-align: right; white-space: nowrap; }
.kept b { color: #1a7f37; } .broken b { color: #cf222e; } .not-applicable { opacity: .75; }
.clients { font-size: .8rem; opacity: .85; } .broken p { border-left: 3px solid #cf222e; padding-left: .6rem; }
@media (prefers-color-scheme: dark) { .kept b { color: #3fb950; } .broken b { color: #ff7b72; } }
p { margin: .2rem 0 0; } code { overflow-wrap: anywhere; }
"""


def page(adapter: Adapter, verdicts: Sequence[Verdict], seed: int) -> str:
    """The page.

    :param seed: of what was drawn.
    """
    counts = Counter(each.outcome for each in verdicts)
    rows = "\n".join(map(_row, sorted(verdicts, key=lambda each: each.outcome != "broken")))
    name = escape(adapter.name)
    lacks = "\n".join(
        f"<tr><td><code>{escape(each)}</code><td>{escape(CAPABILITIES[each])}<td>{escape(reason)}"
        for each, reason in adapter.absent.items()
    )
    absent = f"<h2>Capabilities that the format lacks</h2>\n<table>{lacks}</table>" if lacks else ""
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{name}: {counts["broken"]} broken promises</title>
<style>{_STYLE}</style>
<h1>The promises of <code>{name}</code></h1>
<p>{counts["kept"]} kept, {counts["broken"]} broken, {counts["not applicable"]} not applicable.
Judged with bussrv {VERSION}, seed {seed}.</p>
<table>
<thead><tr><th>Outcome<th>Promise<th>Seconds</thead>
{rows}
</table>
{absent}
"""


def _row(verdict: Verdict) -> str:
    sentence = f"<p>{escape(verdict.sentence)}" if verdict.sentence else ""
    clients = "".join(f"<br><code>{escape(each)}</code>" for each in verdict.clients)
    said = f'<div class="clients">Clients:{clients}</div>' if clients else ""
    seconds = "" if verdict.outcome == "not applicable" else f"{verdict.seconds:.2f}"
    return (
        f'<tr class="{verdict.outcome.replace(" ", "-")}"><td><b>{verdict.outcome}</b>'
        f"<td><code>{verdict.promise.name}</code><br>{escape(verdict.promise.says)}{sentence}{said}<td>{seconds}"
    )
