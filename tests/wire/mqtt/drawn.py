"""Packets of MQTT, drawn: what :mod:`bussrv.wire.mqtt.writer` can write, for a side and a version."""

from hypothesis import strategies as st

from bussrv.wire.mqtt import packets as mqtt
from bussrv.wire.mqtt.packets import NO_PROPERTIES, VERSION_5, PacketType, Properties
from bussrv.wire.mqtt.properties import ALLOWED, ValueType
from bussrv.wire.mqtt.reasons import CODES, SUBACK_CODES

SIDES = ("client", "server")
VERSIONS = (4, 5)
sides, versions = st.sampled_from(SIDES), st.sampled_from(VERSIONS)

_fit = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.text(_fit, max_size=9)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0+#"), min_size=1, max_size=9)
ids = st.integers(1, 0xFFFF)
payloads = st.one_of(st.binary(max_size=9), st.integers(100, 20000).map(bytes))
qualities = st.integers(0, 2)
levels = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0+#/$"), max_size=3)
_parts = st.lists(st.one_of(levels, st.just("+")), max_size=4)
plain_filters = st.builds(lambda parts, last: "/".join([*parts, *last]), _parts, st.sampled_from([[], ["#"]])).filter(
    bool
)
groups = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0+#/"), min_size=1, max_size=3)
shared_filters = st.builds(lambda group, inner: f"$share/{group}/{inner}", groups, plain_filters)

_VALUES = {
    ValueType.TEXT: texts,
    ValueType.TOPIC: names,
    ValueType.BINARY: st.binary(max_size=9),
    ValueType.PAIR: st.tuples(texts, texts),
}
_MOST = {
    ValueType.BYTE: 0xFF,
    ValueType.TWO_BYTES: 0xFFFF,
    ValueType.FOUR_BYTES: 0xFFFFFFFF,
    ValueType.VARIABLE: 2**28 - 1,
}


def value(row):
    if row.type in _VALUES:
        return _VALUES[row.type]
    return st.integers(row.least, min(row.most, _MOST[row.type]))


def properties(packet, without=()):
    """The properties of a packet: few of those that it may have."""
    drawn = {}
    for row in ALLOWED[packet].values():
        if row.name in without:
            continue
        if row.repeats:
            most = 3 if packet in row.repeats else 1
            drawn[row.name] = st.lists(value(row), min_size=1, max_size=most).map(tuple)
        else:
            drawn[row.name] = value(row)
    some = st.lists(st.sampled_from(sorted(drawn)), max_size=4, unique=True)
    chosen = some.flatmap(lambda names: st.fixed_dictionaries({name: drawn[name] for name in names}))
    return st.one_of(st.just(NO_PROPERTIES), chosen.map(lambda found: Properties(**found) if found else NO_PROPERTIES))


def _of(packet, version, without=()):
    return properties(packet, without) if version == VERSION_5 else st.just(NO_PROPERTIES)


def wills(version):
    return st.builds(mqtt.Will, names, st.binary(max_size=9), qualities, st.booleans(), _of(PacketType.WILL, version))


def _with_method(found):
    is_lacking = found.authentication_method is None and found.authentication_data is not None
    return Properties(authentication_method="m") if is_lacking else found


def connects(version):
    password, username = st.none() | st.binary(max_size=9), st.none() | texts
    found = st.builds(
        mqtt.Connect,
        *(texts, st.just(version), st.booleans(), st.integers(0, 0xFFFF), st.none() | wills(version)),
        *(username, password, _of(PacketType.CONNECT, version).map(_with_method)),
    )
    return found.filter(lambda packet: version == VERSION_5 or packet.username is not None or packet.password is None)


def publishes(side, version):
    without = ("subscription_identifiers",) if side == "client" else ()
    found = _of(PacketType.PUBLISH, version, without)
    plain = st.builds(lambda t, p, r, f: mqtt.Publish(t, p, 0, r, 0, False, f), names, payloads, st.booleans(), found)
    secured = st.builds(mqtt.Publish, names, payloads, st.integers(1, 2), st.booleans(), ids, st.booleans(), found)
    if version != VERSION_5:
        return plain | secured
    alias = st.builds(lambda p, n: mqtt.Publish("", p, properties=Properties(topic_alias=n)), payloads, ids)
    return plain | secured | alias


def _codes(packet, version, otherwise=(0,)):
    return st.sampled_from(sorted(CODES[packet] if version == VERSION_5 else otherwise))


def _acks(version):
    kinds = (mqtt.Puback, mqtt.Pubrec, mqtt.Pubrel, mqtt.Pubcomp)
    types = {kind: PacketType[kind.__name__.upper()] for kind in kinds}
    return st.one_of(*(st.builds(kind, ids, _codes(each, version), _of(each, version)) for kind, each in types.items()))


def _wanted(version):
    if version != VERSION_5:
        return st.builds(mqtt.WantedFilter, plain_filters, qualities)
    plain = st.builds(mqtt.WantedFilter, plain_filters, qualities, st.booleans(), st.booleans(), qualities)
    return plain | st.builds(mqtt.WantedFilter, shared_filters, qualities, st.just(False), st.booleans(), qualities)


def _one_or_more(item):
    return st.lists(item, min_size=1, max_size=4).map(tuple)


def _clients(version):
    filters = plain_filters if version != VERSION_5 else plain_filters | shared_filters
    return (
        st.builds(mqtt.Subscribe, ids, _one_or_more(_wanted(version)), _of(PacketType.SUBSCRIBE, version)),
        st.builds(mqtt.Unsubscribe, ids, _one_or_more(filters), _of(PacketType.UNSUBSCRIBE, version)),
        st.just(mqtt.Pingreq()),
        st.builds(mqtt.Disconnect, _codes(PacketType.DISCONNECT, version), _of(PacketType.DISCONNECT, version)),
    )


def _servers(version):
    connacks = st.builds(
        lambda code, present, found: mqtt.Connack(code, present and not code, found),
        *(_codes(PacketType.CONNACK, version, range(6)), st.booleans(), _of(PacketType.CONNACK, version)),
    )
    subacks = _one_or_more(_codes(PacketType.SUBACK, version, SUBACK_CODES))
    unsubacks = _one_or_more(_codes(PacketType.UNSUBACK, version)) if version == VERSION_5 else st.just(())
    without = ("session_expiry_interval",)
    disconnects = st.builds(
        mqtt.Disconnect, _codes(PacketType.DISCONNECT, version), _of(PacketType.DISCONNECT, version, without)
    )
    return (
        *(connacks, st.just(mqtt.Pingresp())),
        st.builds(mqtt.Suback, ids, subacks, _of(PacketType.SUBACK, version)),
        st.builds(mqtt.Unsuback, ids, unsubacks, _of(PacketType.UNSUBACK, version)),
        *([disconnects] if version == VERSION_5 else []),
    )


def _auths():
    found = properties(PacketType.AUTH, ("authentication_method",))
    with_method = st.builds(lambda method, each: _replaced(each, method), texts, found)
    return st.just(mqtt.Auth()) | st.builds(mqtt.Auth, _codes(PacketType.AUTH, VERSION_5), with_method)


def _replaced(found, method):
    fields = {name: getattr(found, name) for name in found.__struct_fields__}
    return Properties(**{**fields, "authentication_method": method})


def after_connect(side, version):
    """Any packet that a side may send after CONNECT."""
    own = _clients(version) if side == "client" else _servers(version)
    auths = [_auths()] if version == VERSION_5 else []
    return st.one_of(publishes(side, version), _acks(version), *own, *auths)


PACKETS = {(side, version): after_connect(side, version) for side in SIDES for version in VERSIONS}
