"""Transports: TCP, UDP and what stands before them.

- ``accepting``: ports that many connect to at once, and ports that cannot accept a connection
- ``complaints``: lines of log about single clients, at a limited rate for each address
- ``endpoint_faults``: faults of endpoint descriptions, in sentences for operators
- ``endpoint_parts``: endpoint descriptions taken apart, as Twisted writes them: parts with ``:`` between them, and a
  backslash before a colon, an equals sign or a backslash that belongs to a part
- ``icmp``: ICMP errors: the network's reports of datagrams that nobody took, on systems that hand them out (Linux)
- ``losing``: connections that are lost: thousands at once, for example if a switch starts anew
- ``patience``: a time-out that counts only the time in which the server waited for the client
- ``proxied``: ``haproxy:`` endpoints: a connection begins when the proxy has said whose it is, and passes on everything
  after that
- ``round_trip``: the round trip of a TCP connection, as the system measures it
- ``shared_poll``: reading many connections of a port in one call of the reactor
- ``tcp``: TCP connections that send immediately, and receive without fragmenting the server's memory
- ``udp_batches``: several datagrams for one address in one system call: the system cuts them apart (Linux,
  ``UDP_SEGMENT``)

Tests: ``tests/net/transport``.
"""
