"""The contract with authors of plugins, besides :mod:`bussrv.plugin`, which is all that they import.

- ``names``: the names of ``bussrv.plugin`` that are heavy, from the modules that define them

Tests: ``tests/contract``, with the listing of what is promised.
"""
