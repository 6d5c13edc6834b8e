from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bussrv.addresses import format_address
from bussrv.audit.fold import session_fold
from tests.audit.oracles import address as oracle
from tests.tables import each_row

CASES = {
    None: None,
    "192.0.2.1:5": "192.0.2.1",
    "192.0.2.1": "192.0.2.1",
    "[::1]:7": "::1",
    "[::1]": "::1",
    "::1": "::1",
    "fe80::1": "fe80::1",
    "fe80::1%eth0": "fe80::1%eth0",
    "[fe80::1%eth0]:51234": "fe80::1%eth0",
    "[::ffff:192.0.2.1]:5": "::ffff:192.0.2.1",
    "~b06d2f8813c4a97e50d1f2c8:51234": "~b06d2f8813c4a97e50d1f2c8",
    "~b06d2f8813c4a97e50d1f2c8": "~b06d2f8813c4a97e50d1f2c8",
    "/run/bussrv.sock": "/run/bussrv.sock",
    "": "",
}


@each_row("peer", CASES)
def test_a_peer_is_told_without_its_port(peer: str | None) -> None:
    assert session_fold.address_of(peer) == oracle.address_of(peer) == CASES[peer]


@given(st.ip_addresses().map(str), st.integers(0, 65535))
def test_the_oracle_undoes_what_the_server_writes(host: str, port: int) -> None:
    assert oracle.address_of(format_address(host, port)) == host
    assert oracle.address_of(host) == host
