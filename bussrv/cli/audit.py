"""``bussrv audit``: check journals and report sessions, services and events."""

from __future__ import annotations

import argparse

SUMMARY = "check journals and report sessions, services and events"

DESCRIPTION = """
Check journals for records that are damaged, missing, repeated or contradictory, and report sessions, services and
events. Exit status: 0 clean, 1 findings, 2 the journals could not be judged. The last line of the output is the path
of summary.json. Needs PySpark (pip install 'bussrv[audit]', in a checkout: pip install -e '.[audit]') and Java 17 or
newer.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    from bussrv.audit import job

    job.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do it, and return the exit status."""
    from bussrv.audit import job

    return job.run(arguments)
