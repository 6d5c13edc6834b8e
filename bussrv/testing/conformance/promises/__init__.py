"""The promises, by concern. Each module has a table of its own; ``judging`` has all of them.

- ``framing``: how input is cut, and input that is none
- ``oddities``: input that is odd, and what it leaves
- ``life``: the beginning and the end of sessions
- ``delivery``: what subscribers are given, slow ones too
- ``exchange``: requests and replies
- ``writing``: nothing is answered before it is durable
- ``machine``: what takes a real process: signals, kill -9, verify and audit
- ``rights``: who clients are, and what they may do
- ``limits``: what clients may use
"""
