"""Who and what is there, for programs that find devices and clients by themselves, on topics of the server.

- ``changed_keys``: things that changed, looked at together and in slices
- ``configs``: the topics and the configs by which Home Assistant finds services as sensors
- ``home_assistant``: services that come and go as devices of Home Assistant
- ``presence``: sessions and services that come and go, on the topics ``$bus/…``
- ``remembered``: the services that Home Assistant may know, also from before a restart
- ``told``: subscribers of such topics whose permissions change

Tests: ``tests/services/discovery``.
"""
