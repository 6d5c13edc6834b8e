"""What the start says about ports."""

from twisted.logger import capturedLogs, formatEvent

from bussrv.server.ports import SOON, warn_of_expiry


def test_certificates_that_expire_soon_are_named() -> None:
    with capturedLogs() as logged:
        warn_of_expiry({"objects": lambda: SOON, "spp": lambda: SOON - 1, "link hall:7890": lambda: None})
    assert [formatEvent(event) for event in logged] == ["WARNING: spp: a certificate expires in 29 days"]
