"""The engine Kafka: sealed registry events to a topic, and publications of chosen services, both ways.

- ``cluster``: the brokers of a cluster, the ways in, and arguments for the clients of aiokafka
- ``events``: sends sealed records of a journal, each exactly once
- ``faults``: which errors of Kafka pass by themselves, and sentences about the others
- ``incoming``: takes records from Kafka, and publishes them on the bus
- ``outgoing``: sends publications from the bus to Kafka
- ``position``: the last record of a server in a topic, to go on from
- ``publications``: publications as records of Kafka, and back
- ``running``: runs the parts of an uplink until one fails or the program is told to stop
- ``sealed``: the sealed records of a journal, in order, while the server writes it
- ``settings``: the settings of an uplink, and their checks
- ``topics``: names of services as names of topics, and back
- ``topics_there``: which topics a cluster has

Tests: ``tests/uplink/kafka``.
"""
