"""Tamperings with journals: one catalogue, which the tests of ``verify``, of recovery and of the audit draw from.

- ``catalogue``: every kind, by its name
- ``copies``: a copy of a journal to be tampered with
- ``fits``: what an attacker makes anew after tampering, so that the change fits
- ``kinds``: what a kind of tampering is, and the helpers that all of them use
- ``of_lines``, ``of_segments``, ``of_manifests``: the kinds
- ``matrix``: most kinds, in every segment, with and without seals, left as it is or made to fit
- ``page``: the tables of the docs, made of the outcomes of the matrix

The audit has expectations of its own of some kinds: ``tests/audit/mutations.py``.
"""
