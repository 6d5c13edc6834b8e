"""What an object is to subscribers of a service, and a publication to the object network: the table, row by row."""

import json

from bussrv.bus.services.bridge import as_metadata, as_publication
from bussrv.values import Publication
from bussrv.wire.objects import ObjectReader
from tests.bus.harness import TEXT, parsed
from tests.tables import each_row


@each_row(
    ("provided", "fields", "payload", "service"),
    [
        ({"tv"}, {**TEXT, "sender": "tv"}, b"x", "tv"),
        ({"tv", "lamp"}, {**TEXT, "sender": "lamp"}, b"x", "lamp"),
        ({"tv"}, TEXT, b"x", "tv"),
        ({"tv"}, TEXT, b"", "tv"),
        ({"tv"}, {}, b"x", "tv"),
        ({"tv"}, {"event": "tv/on", **TEXT}, b"x", "tv"),
        ({"tv"}, {"event": "tv/on"}, b"x", "tv"),
        ({"tv"}, {"event": "serviceson", **TEXT}, b"x", "tv"),
        ({"tv"}, {**TEXT, "sender": None}, b"x", "tv"),
        ({"tv"}, {**TEXT, "to": None}, b"x", "tv"),
        # Not with another sender, or with none where there are several services.
        ({"tv"}, {**TEXT, "sender": "lamp"}, b"x", None),
        ({"tv"}, {**TEXT, "sender": 7}, b"x", None),
        ({"tv"}, {**TEXT, "sender": ""}, b"x", None),
        ({"tv", "lamp"}, TEXT, b"x", None),
        ({"tv", "lamp"}, {**TEXT, "sender": "radio"}, b"x", None),
        (set(), {**TEXT, "sender": "tv"}, b"x", None),
        (set(), TEXT, b"x", None),
        # Not events of the vocabulary.
        ({"tv"}, {"event": "services/reply", **TEXT, "sender": "tv"}, b"x", None),
        ({"tv"}, {"event": "services/request", **TEXT}, b"x", None),
        ({"tv"}, {"event": "routing/neighbors", **TEXT}, b"x", None),
        ({"tv"}, {"event": "Services/Reply", **TEXT}, b"x", None),
        ({"tv"}, {"event": "error", **TEXT}, b"x", None),
        ({"tv"}, {"event": "client/register", **TEXT}, b"x", None),
        ({"tv"}, {"event": "error/tv", **TEXT}, b"x", "tv"),
        # Not without content.
        ({"tv"}, {"event": "tv/on"}, b"", None),
        ({"tv"}, {"sender": "tv"}, b"", None),
        ({"tv"}, {"sender": "tv", "type": ""}, b"", None),
        # Not what is meant for somebody.
        ({"tv"}, {**TEXT, "to": "c1"}, b"x", None),
        ({"tv"}, {**TEXT, "to": []}, b"x", None),
    ],
)
def test_which_objects_are_publications(provided, fields, payload, service):
    publication = as_publication(parsed(fields, payload), provided)
    assert (publication and publication.service) == service
    if publication is not None:
        assert publication.payload == payload
        assert publication.content_type == fields.get("type", "application/octet-stream")


@each_row(
    ("value", "app_type"),
    [
        ("7", 7),
        ("0", 0),
        ("-1", -1),
        ("9223372036854775807", 9223372036854775807),
        ("9223372036854775808", 1),
        ("-9223372036854775808", 1),
        ("1e999", 1),
        ("2.0", 1),
        ("true", 1),
        ('"7"', 1),
        ("null", 1),
        ("[7]", 1),
    ],
)
def test_the_app_type_is_the_attribute_if_it_can_be_one(value, app_type):
    reader = ObjectReader()
    reader.feed(b'{"type":"t","app-type":%b}\0' % value.encode())
    assert as_publication(reader.next_event(), {"tv"}).app_type == app_type


def test_the_app_type_is_1_where_nothing_is_said():
    assert as_publication(parsed(TEXT), {"tv"}).app_type == 1
    assert as_publication(parsed({**TEXT, "x": "app-type"}), {"tv"}).app_type == 1


def test_what_members_of_the_object_network_are_shown():
    publication = Publication("tv", "text/plain; charset=UTF-8", "ä".encode(), 17)
    metadata = as_metadata(publication, "o1", ["p1", "hall"], with_app_type=True)
    assert json.loads(metadata) == {
        "type": "text/plain; charset=UTF-8",
        "size": 2,
        "sender": "tv",
        "id": "o1",
        "route": ["p1", "hall"],
        "app-type": 17,
    }
    assert "app-type" not in json.loads(as_metadata(publication, "o1", ["p1"], with_app_type=False))
    assert json.loads(as_metadata(Publication("tv", "t", b""), "o1", [], with_app_type=False))["size"] == 0
