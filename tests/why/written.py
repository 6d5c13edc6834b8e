"""Journals of servers in memory, written to a directory as far as ``why`` reads them."""

from __future__ import annotations

from pathlib import Path

from bussrv import events as ev
from bussrv.journal.chain import START
from bussrv.journal.header import Header, encode_header
from bussrv.journal.record import encode
from bussrv.journal.segment import segment_name
from bussrv.server.running.policy import in_effect
from tests.formats.network import Network


def begin(network: Network) -> None:
    """A boot begins: the journal is told by which rules."""
    network.registry.note(ev.ServerStarted(version="1", in_effect=in_effect(network.bus)))


def reload(network: Network) -> None:
    """The rules have changed: so they are told again."""
    network.registry.note(ev.ConfigReloaded(changed=("policy",), in_effect=in_effect(network.bus)))


def write(network: Network, directory: Path) -> Path:
    """Write the journal of a server as one segment."""
    records = network.journal.records
    directory.mkdir(exist_ok=True)
    header = Header(prev=START, segment=1, parts=0, time=records[0].time, server=network.server_id, boot="boot")
    lines = [encode_header(header), *map(encode, records)]
    (directory / segment_name(1)).write_bytes(b"".join(lines))
    return directory
