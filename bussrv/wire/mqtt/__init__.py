r"""MQTT 3.1.1 and 5.0: packets on TCP. Source: the OASIS standards mqtt-v3.1.1-os and mqtt-v5.0-os.

Sections and statements, such as ``[MQTT-3.1.2-3]``, are those of 5.0 unless another version is named. Integers have
their most significant byte first. A length has 7 bits in each byte, the lowest first, in at most four bytes; bit 7 says
that another byte follows. A text is two bytes of length and that much UTF-8 without U+0000; binary data, the same
without being text.

::

    packet     = type-and-flags length rest     `length` bytes in `rest`; type in bits 7-4, flags in bits 3-0
    properties = length *(identifier value)     5.0 only; see :mod:`bussrv.wire.mqtt.properties`
    will       = [properties] topic payload

    type             flags       rest; in 3.1.1 without properties, and without what is in parentheses
    1  CONNECT       0     ->    "MQTT" level flags keep-alive properties client-id [will] [username] [password]
    2  CONNACK       0     <-    session-present code properties
    3  PUBLISH       *     <>    topic [id] properties payload;  bit 3: DUP, bits 2-1: QoS, bit 0: RETAIN
    4  PUBACK        0     <>    id (code properties)
    5  PUBREC        0     <>    id (code properties)
    6  PUBREL        2     <>    id (code properties)
    7  PUBCOMP       0     <>    id (code properties)
    8  SUBSCRIBE     2     ->    id properties 1*(filter options)
    9  SUBACK        0     <-    id properties 1*code
    10 UNSUBSCRIBE   2     ->    id properties 1*filter
    11 UNSUBACK      0     <-    id (properties 1*code)
    12 PINGREQ       0     ->
    13 PINGRESP      0     <-
    14 DISCONNECT    0     <>    (code properties);  in 3.1.1 from clients only
    15 AUTH          0     <>    (code properties);  5.0 only

Modules, in the order in which they build on each other:

- ``packets``: the packets as they are read and written
- ``reasons``: reason codes of 5.0 and return codes of 3.1.1, and the code that answers each fault
- ``topics``: names and filters of topics: which are valid, and which filters are shared
- ``properties``: the table of the properties of 5.0
- ``fields``: the fields of one packet, read one after the other
- ``bodies``: the rest of each type of packet, read
- ``reader``: bytes to packets
- ``writer``: packets to bytes
- ``published``: packets with messages, altered for the client that gets them
- ``over_websocket``: messages of a WebSocket to packets

Tests: ``tests/wire/mqtt``.
"""
