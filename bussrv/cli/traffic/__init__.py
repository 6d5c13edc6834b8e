"""Clients of a bus, for the commands.

- ``answering``: a service that runs a command for each request, several at a time, and sends its output as the reply
- ``capture``: tapped objects as a packet capture, for Wireshark
- ``joining``: a client of a bus for a command, and what it says of its connection
- ``measuring``: the measurements of ``bussrv bench``: each has clients in processes of their own
- ``payloads``: payloads for people: their content type, and a line that shows them
- ``receiving``: publications on services, received over any wire format
"""
