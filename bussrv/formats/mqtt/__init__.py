"""MQTT 3.1.1 and 5.0: topics are services, filters are patterns over their names.

- ``port``: the port, what its connections are made of, and the way to them over WebSocket
- ``protocol``: connections of clients: from CONNECT to the end
- ``over_websocket``: those over WebSocket
- ``clients``: everything that the clients of all ports have in common: client ids, and those who want messages
- ``joining``: what CONNECT asks for, and whether the client gets it
- ``publishing``: messages that clients publish, and the topics that they provide
- ``subscribing``: filters that clients subscribe to, and what is retained for them
- ``requests``: requests that clients ask and answer
- ``attributes``: attributes of objects as properties of messages
- ``codes``: the reason codes that tell clients why they are refused something
- ``encoding``: publications as messages for all clients with equal subscriptions
- ``link``: the link to a client, and messages of QoS 1 and 2 on their way to it
- ``durable``: sessions that outlive their connections

Tests: ``tests/formats/mqtt``.
"""
