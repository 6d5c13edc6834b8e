"""Names of events that the bus itself looks at, in lower case."""

REQUEST = "services/request"
"""The event of a request to a service."""

REPLY = "services/reply"
"""The event of a reply to a request."""

DISCOVERY = "services/discovery"

REPLYING = (REPLY, "error")
"""Events that are routed to the asker of a request, if their sender was given it."""

ASKING = (REQUEST, *REPLYING)
"""Events that are routed to one provider and back to the asker."""

EXCHANGED = frozenset({REQUEST, REPLY})
"""Those of them that clients send often, as they are usually spelt."""

NEIGHBORS = "routing/announcement/neighbors"
"""The event with which a server tells which servers it is linked with."""

INTEREST = "routing/announcement/interest"
"""The event with which a server tells what it wants; see :mod:`bussrv.bus.links.interest_fields`."""

GAP = "routing/announcement/gap"
"""The event with which a server tells that objects were lost; see :mod:`bussrv.bus.links.gaps`."""

NET = "uplink/"
"""The beginning of the routing id of a net of servers, which is one linked server: its uplink."""

FAREWELL = "abboe/close/notify"
"""The event with which a server says that it ends a link, and why."""

SERVERS_ONLY = (
    "routing/subscribe/reply",
    "routing/subscribe/notify",
    "routing/subscribe/notification",
    "routing/disconnect",
    NEIGHBORS,
    INTEREST,
    GAP,
    "services/gap",
    "routing/neighbors/reply",
    "client/register/reply",
    "clients/register/reply",
    "services/register/reply",
    "services/unregister/reply",
    "services/list/reply",
    FAREWELL,
)
"""Events that clients may not send: members trust them, as they are the server's."""

JOINING = ("routing/subscribe", "client/register", "clients/register")
"""Events by which clients become members. They may hold secrets, which nobody else may see."""

PARTED = frozenset((*ASKING, *SERVERS_ONLY, *JOINING))
"""Events that are not given to every session that wants them."""
