"""The adapters of the formats that bussrv has, and how those of others are found.

- ``objects``: Object System, Business Object, and Object System over WebSocket
- ``spp``: Service providing protocol
- ``inbus``: Inbus
- ``mqtt``: MQTT 5.0
- ``known``: adapters by the name of their format
"""
