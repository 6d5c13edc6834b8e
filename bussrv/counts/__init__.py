"""Counting: how many of each, how long, and how often.

- ``histogram``: how long something took, counted by size: cheap to count, and good enough for quantiles
- ``tally``: how many there are of each key, and which key has most: found without looking at all of them
- ``throttle``: token buckets: how often something may be journaled or logged, so that no client can fill the disk

Tests: ``tests/counts``.
"""
