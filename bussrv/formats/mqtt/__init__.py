"""MQTT 3.1.1 and 5.0: topics are services, filters are patterns over their names.

- ``protocol``: connections of clients: from CONNECT to the end
- ``over_websocket``: those over WebSocket
- ``port``: the port, and the way to it over WebSocket
- ``connection``: the methods of a connection that its parts call
- ``clients``: everything that the clients of all ports have in common, client ids among them
- ``joining``: what CONNECT asks for, and whether the client gets it
- ``publishing``: messages that clients publish, and the topics that they provide
- ``giving``: these messages, and wills, given to everybody who wants them
- ``attributes``: attributes of objects as properties of messages
- ``requests``: requests of clients, and to them
- ``kept``: wills, and what clients retain, as the spool has them
- ``subscribing``: filters that clients subscribe to, and what is retained for them
- ``encoding``: publications as messages for all clients with equal subscriptions
- ``link``: the link to a client, and messages of QoS 1 and 2 on their way to it
- ``durable``: sessions that outlive their connections

Tests: ``tests/formats/mqtt``.
"""
