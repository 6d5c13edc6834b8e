"""What Home Assistant is told of a service: the form that it takes, and ids that stay."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from bussrv.registry.state.session import Session
from bussrv.services.discovery.configs import Device, Sensors, device_of, readable_id
from bussrv.values import MAX_SERVICE_NAME
from tests.tables import each_row

ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=40)
tricky = st.text("ab2f_/-é", min_size=1, max_size=6)


@given(names | tricky, st.integers(1, 60))
def test_an_id_has_only_what_ids_may_have(name: str, most: int) -> None:
    found = readable_id(name, most)
    assert ID.match(found)
    assert len(found) <= max(most, 66)


@given(tricky, tricky, st.integers(4, 60))
def test_different_names_have_different_ids(one: str, other: str, most: int) -> None:
    assert (readable_id(one, most) == readable_id(other, most)) == (one == other)


@given(tricky, tricky, tricky, tricky)
def test_sensors_of_different_servers_are_different(one: str, other: str, service: str, another: str) -> None:
    ids = [
        json.loads(Sensors(server).config(each, Device("host", "x", "inbus")))["unique_id"]
        for server, each in ((one, service), (other, another))
    ]
    assert (ids[0] == ids[1]) == ((one, service) == (other, another))


@each_row("name", ["tv", "hall/temp", "é" * (MAX_SERVICE_NAME // 2), "x" * MAX_SERVICE_NAME])
def test_a_config_is_what_home_assistant_takes(name: str) -> None:
    sensors = Sensors("hall " * 20)
    topic = sensors.config_topic(name)
    prefix, component, node, object_id, last = topic.split("/")
    assert (prefix, component, last) == ("homeassistant", "sensor", "config")
    assert ID.match(node)
    assert ID.match(object_id)
    assert len(topic.encode()) <= MAX_SERVICE_NAME >= len(sensors.availability_topic(name))
    config = json.loads(sensors.config(name, Device("host", "10.0.0.3", "inbus")))
    assert config["state_topic"] == config["name"] == name
    assert config["availability_topic"] == sensors.availability_topic(name)
    assert config["device"]["name"] == "10.0.0.3"
    assert config["origin"]["name"] == "bussrv"
    for each in (config["unique_id"], *config["device"]["identifiers"]):
        assert ID.match(each)


def session(**facts: str) -> Session:
    about = {"id": "1", "protocol": "objects", "routing_id": "r", "peer": "10.0.0.3:4711"}
    return Session(**{**about, **facts}, opened=0)


@each_row(
    ("facts", "kind", "name"),
    [
        ({"actor": "ann", "name": "cam"}, "user", "ann"),
        ({"name": "cam"}, "program", "cam"),
        ({}, "host", "10.0.0.3"),
        ({"protocol": "inbus", "peer": "10.0.0.7", "actor": "cameras"}, "host", "10.0.0.7"),
    ],
)
def test_a_device_is_known_by_what_stays(facts: dict[str, str], kind: str, name: str) -> None:
    one, later = device_of(session(**facts)), device_of(session(**{"peer": "10.0.0.3:9", **facts, "id": "2"}))
    assert (one.kind, one.name) == (kind, name)
    assert one == later
