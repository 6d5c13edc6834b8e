"""Inbus devices that are known to be subscribed: nothing tells a device that it is."""

from contextlib import suppress

from bussrv.client import inbus


def wait_until_subscribed(app_key: str, udp: tuple[str, int], *devices: inbus.InbusSubscriber) -> None:
    """Publish until each device has received something."""
    waiting = set(devices)
    while waiting:
        inbus.publish(app_key, b"first", server=udp)
        for device in tuple(waiting):
            with suppress(TimeoutError):
                device.receive(0.2)
                waiting.discard(device)
    for device in devices:
        with suppress(TimeoutError):
            while True:
                device.receive(0.2)
