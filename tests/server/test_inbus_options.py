"""The options of Inbus, from the command line to the settings."""

from ipaddress import ip_network
from typing import Any

import pytest

from bussrv.errors import ConfigError
from bussrv.server import config
from bussrv.server.options import Options


def test_what_the_command_line_says_of_inbus() -> None:
    options = Options()
    arguments = [
        "--inbus-max-rate",
        "50",
        "--inbus-lease",
        "90",
        "--inbus-allow",
        "10.0.0.0/8",
        "--inbus-allow",
        "::/0",
    ]
    options.parseOptions([*arguments, "--inbus", r"udp:7222:interface=\:\:1"])
    settings = options.config.settings
    assert (settings.inbus_max_rate, settings.inbus_lease) == (50, 90.0)
    assert settings.inbus_allow == (ip_network("10.0.0.0/8"), ip_network("::/0"))
    assert options.config.endpoints["inbus"] == r"udp:7222:interface=\:\:1"


def test_what_goes_unsaid() -> None:
    settings = config.settings({})
    assert (settings.inbus_max_rate, settings.inbus_lease, settings.inbus_allow) == (10_000, 3600.0, ())


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", 1.5, True, None])
def test_a_rate_is_a_whole_number_of_1_or_more(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"--inbus-max-rate: .* is not a whole number of 1 or more"):
        config.settings({"inbus-max-rate": value})
