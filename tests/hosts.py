"""Where tests have a server listen: on this machine, over IPv4 or IPv6."""

import socket
from ipaddress import ip_address

import pytest

HOSTS = ("127.0.0.1", "::1")


def is_there(host: str) -> bool:
    """Whether this machine can listen on such an address."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def needs_host(host: str) -> str:
    """``host``, or the test is skipped, because this machine has no such address."""
    if not is_there(host):
        pytest.skip(f"nothing can listen on {host} here")
    return host


def listening_on(host: str) -> list[str]:
    """The options of a server that serves every format there, on free ports."""
    interface = "0:interface=" + host.replace(":", "\\:")
    transports = {"objects": "tcp", "business": "tcp", "spp": "tcp", "inbus": "udp"}
    endpoints = [each for name, kind in transports.items() for each in (f"--{name}", f"{kind}:{interface}")]
    return endpoints if ip_address(host).is_loopback else ["--insecure", *endpoints]
