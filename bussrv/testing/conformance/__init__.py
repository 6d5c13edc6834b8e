"""The kit that judges a wire format: whether it keeps the promises that bussrv makes for every format.

An author writes an :mod:`adapter <bussrv.testing.conformance.adapter>`, which says and reads what one client of the
format does. :mod:`judging <bussrv.testing.conformance.judging>` tries every promise with it, and says in one sentence
which are broken. Most are tried at a server in memory, on a clock that the kit moves. None of it needs pytest.

- ``adapter``: what an author writes, and the capabilities that a format may lack
- ``formats``: the adapters of the formats of bussrv, and how those of others are found
- ``judging``: all promises, and verdicts
- ``lab``: a server in memory, its journal and its clients
- ``page``: the results as a page in HTML
- ``promises``: the judgements, by concern
- ``seen``: what each client did, and the last that was said
- ``trial``: what a judgement is given, and what it says
- ``work``: how much work something is

``bussrv conformance`` and ``bussrv.testing.pytest_plugin`` run it. Tests: ``tests/testing/conformance``.
"""
