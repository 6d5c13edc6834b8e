"""``bussrv conformance``: judge a wire format."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bussrv.cli.command import command
from bussrv.cli.failure import FAILED, NO, Failure
from bussrv.cli.show import output

_SHORT = {"kept": "kept", "broken": "broken", "not applicable": "n/a"}


@command(
    examples=("bussrv conformance spp --in-memory --html spp.html",),
    statuses={0: "it keeps every promise", 1: "it breaks a promise"},
)
@click.argument("name", metavar="NAME")
@click.option("--html", "html", metavar="FILE", help="Write a page with all results to FILE.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, a line for each promise.")
@click.option("--only", metavar="WORDS", help="Try only promises that have WORDS in their names.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws other garbage and other places.")
@click.option("--thorough", is_flag=True, help="Cut input at every place, and draw ten times as much garbage.")
@click.option("--in-memory", is_flag=True, help="Start no server in a process of its own.")
def conformance(
    name: str, html: str | None, as_json: bool, only: str | None, seed: int, thorough: bool, in_memory: bool
) -> int:
    """Judge whether a wire format keeps the promises that bussrv makes for every format. NAME is the name of a format,
    or MODULE:CLASS, the place of an adapter. The plugin of the format has to be installed.
    """
    # Plugins and adapters may be in the working directory, as for `twistd`. Twisted looks for plugins only once.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    from bussrv.errors import ConfigError
    from bussrv.testing.conformance.formats.known import adapter_of
    from bussrv.testing.conformance.judging import PROMISES, Verdict, installed_format, judge_one
    from bussrv.testing.conformance.page import page

    try:
        adapter = adapter_of(name)
        installed_format(adapter.name)
    except ConfigError as error:
        raise Failure(str(error), FAILED) from error
    wanted = [each for each in PROMISES if (only is None or only in each.name) and not (in_memory and each.is_real)]
    if not wanted:
        raise Failure(f"no promise has {only!r} in its name", FAILED)
    verdicts: list[Verdict] = []
    for each in wanted:
        verdict = judge_one(each, adapter, seed=seed, thorough=thorough)
        verdicts.append(verdict)
        if as_json:
            said = {"promise": each.name, "outcome": verdict.outcome, "sentence": verdict.sentence}
            output.json_line({**said, "clients": verdict.clients, "seconds": round(verdict.seconds, 3)})
        else:
            print(f"{_SHORT[verdict.outcome]:6}  {each.name}{': ' if verdict.sentence else ''}{verdict.sentence}")
            for client in verdict.clients if verdict.outcome == "broken" else ():
                print(f"        {client}")
    if html is not None:
        try:
            Path(html).write_text(page(adapter, verdicts, seed), encoding="utf-8")
        except OSError as error:
            raise Failure(f"cannot write {html}: {error.strerror}", FAILED) from error
    broken = sum(each.outcome == "broken" for each in verdicts)
    if not as_json:
        kept = sum(each.outcome == "kept" for each in verdicts)
        print(f"{adapter.name}: {kept} promises kept, {broken} broken, {len(verdicts) - kept - broken} not applicable")
    return NO if broken else 0
