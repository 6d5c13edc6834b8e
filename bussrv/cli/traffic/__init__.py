"""Clients of a bus, for the commands.

- ``answering``: a service that runs a command for each request, several at a time, and sends its output as the reply
- ``measuring``: the measurements of ``bussrv bench``: each has clients in processes of their own
- ``members``: a member of the object network for the commands, over either of its two wire formats
- ``payloads``: payloads for people: their content type, and a line that shows them
- ``receiving``: publications on services, received over any wire format
"""
