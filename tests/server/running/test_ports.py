"""What the start says about ports."""

from dataclasses import dataclass
from pathlib import Path

from twisted.logger import capturedLogs, formatEvent

from bussrv.server.running.ports import SOON, warn_of_expiry


@dataclass
class Days:
    """A certificate that expires in so many days."""

    days: int | None
    file: Path | None = Path("/etc/server.pem")

    def days_left(self) -> int | None:
        return self.days


def test_certificates_that_expire_soon_are_named() -> None:
    with capturedLogs() as logged:
        warn_of_expiry({"objects": Days(SOON), "spp": Days(SOON - 1), "link hall:7890": Days(None)})
    assert [formatEvent(event) for event in logged] == [
        "WARNING: spp: a certificate in /etc/server.pem expires in 29 days"
    ]
