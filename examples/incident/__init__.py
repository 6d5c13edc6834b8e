"""An incident at three linked servers, and what an operator asks about it: ``make demo-incident``.

- ``__main__``: plays the incident, and asks the questions when an operator would
- ``cable``: a link between two servers that can be cut
- ``office``: three servers, and clients of all wire formats
- ``policy.toml``: what everybody may do; ``stricter.toml``: what the operator thinks of afterwards
- ``questions``: the ten questions, each with the command that answers it
- ``troubles``: what goes wrong

The page about it: ``docs/tutorial/incident.md``. Tests: ``tests/docs/test_incident.py``.
"""
