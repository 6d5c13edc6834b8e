"""Demonstrations in the terminal. Everything in them is real: servers in processes of their own, sockets, journals.

- ``__main__``: ``make demo``: the tour
- ``clients``: what demonstrations have in common: a client of MQTT, free ports, and sentences about what clients saw
- ``cluster``: ``make demo-cluster``: three servers, three uplinks and three servers of NATS
- ``tour``: a server on free ports, a client of every wire format, and the audit of what happened

Tests: ``tests/docs``.
"""
