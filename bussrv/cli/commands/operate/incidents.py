"""``bussrv incidents``: list what needs a look, and take note of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from bussrv.cli.asking import admin, existing
from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.failure import NO
from bussrv.cli.parameters import json_option
from bussrv.terminal import cleaned

WEIGHTS = {3: "GRAVE", 2: "SERIOUS", 1: "MINOR"}


@command(
    examples=("bussrv incidents", "bussrv incidents --all --json"),
    statuses={0: "done", 1: "there is no such incident; with --check, something needs a look"},
)
@click.option("--all", "shows_all", is_flag=True, help="List those, too, that somebody took note of.")
@click.option("--check", is_flag=True, help="Exit with 1 while something needs a look.")
@click.option("--acknowledge", metavar="ID", help="Take note of an incident. The journal has who did so.")
@click.option("--note", metavar="TEXT", help="A few words for others, with --acknowledge.")
@connects
@json_option
def incidents(connection: ConnectionOptions, acknowledge: str | None, note: str | None, **how: bool) -> int:
    """List the incidents of a server: attacks, crashes, contested ids, services that were down, and troubles of the
    server itself, such as a full disk or a lost link. Each has its id, its weight, what happened since when, and what
    to do. The gravest come first. With --acknowledge, an incident does not need a look any more.
    """
    from bussrv.cli.admin_client import element
    from bussrv.cli.show import output

    if acknowledge is not None:
        with existing(f"there is no incident '{cleaned(acknowledge)}'"):
            found = admin(connection).call(
                "POST", f"/incidents/{element(acknowledge)}/acknowledge", body={} if note is None else {"note": note}
            )
        if how["as_json"]:
            output.json_line(found)
        return 0
    if note is not None:
        raise click.UsageError("--note is for --acknowledge")
    every = [*admin(connection).items("/incidents")]
    shown = sorted(
        (each for each in every if how["shows_all"] or each["needs_look"]),
        key=lambda each: (not each["needs_look"], each["over"], -each["weight"], each["since"] or ""),
    )
    if how["as_json"]:
        for each in shown:
            output.json_line(each)
    else:
        for each in shown:
            for text in lines(each):
                output.line(text)
        if not shown:
            output.line("nothing needs a look")
    return NO if how["check"] and any(each["needs_look"] for each in every) else 0


def lines(each: Mapping[str, Any]) -> Iterator[str]:
    """An incident in lines."""
    state = "over" if each["over"] else "goes on"
    yield f"{each['id']}  {WEIGHTS.get(each['weight'], '')}  {each['title']} ({state})"
    yield f"  since {each['since']}{'' if each['until'] is None else ', last ' + each['until']}: {each['what']}"
    about = {
        "about": each["subject"],
        "from": each["address"] or ", ".join(each["sources"]) or None,
        "as": each["actor"],
        "claiming to be": each["claimed"],
    }
    said = ", ".join(f"{name} {cleaned(str(value))}" for name, value in about.items() if value is not None)
    if said:
        yield f"  {said}"
    yield f"  {each['next']}"
    if each["noted_by"] is not None:
        note = "" if each["note"] is None else f": {each['note']}"
        yield f"  noted by {each['noted_by']} at {each['noted_at']}{note}"
