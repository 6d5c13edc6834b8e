"""Names of services as names of topics, and back. Pure.

A topic has letters, digits, ``.``, ``_`` and ``-``, at most 249. So in the name of a service, ``/`` becomes ``.``, and
each byte of UTF-8 that is none of letters, digits and ``-`` becomes ``_`` and two hexadecimal digits. A prefix stands
before all. Every name has one topic, and every topic comes of one name at most. A name whose topic would be longer than
249 has none: there are more names of 255 bytes than topics.
"""

from __future__ import annotations

import re

SEPARATOR, TOPIC_SEPARATOR = "/", "."
LONGEST = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]*")
_ESCAPE = re.compile(r"_([0-9a-f]{2})")
_OTHER = re.compile(rb"[^a-zA-Z0-9/-]")


class NoTopic(ValueError):
    """A service has no topic, since its name is too long."""


def is_topic(name: str) -> bool:
    """Whether a topic can have a name."""
    return 0 < len(name) <= LONGEST and name not in (".", "..") and _LEGAL.fullmatch(name) is not None


def topic_of(prefix: str, service: str) -> str:
    """The topic of a service.

    :raises NoTopic: the name is too long.
    """
    escaped = _OTHER.sub(lambda found: b"_%02x" % found[0][0], service.encode()).decode()
    topic = prefix + escaped.replace(SEPARATOR, TOPIC_SEPARATOR)
    if len(topic) > LONGEST:
        raise NoTopic(f"the topic of {service} would have {len(topic)} characters, and may have {LONGEST}")
    return topic


def service_of(prefix: str, topic: str) -> str | None:
    """The service of a topic; ``None``: it is of none."""
    if not topic.startswith(prefix):
        return None
    rest = topic[len(prefix) :].replace(TOPIC_SEPARATOR, SEPARATOR)
    try:
        service = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), rest).encode("latin-1").decode()
        return service if service and topic_of(prefix, service) == topic else None
    except ValueError:
        return None
