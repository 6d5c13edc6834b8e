"""Copies of journals: in object stores, shipped there and fetched back, and in directories.

- ``fetching``: from a store, or another directory, to a directory: a whole journal, or the segments that a question
  takes
- ``places``: directories, and what fsspec opens, as places for files
- ``shipping``: from a journal directory to a store: what is closed and sealed, read back before it counts
- ``store``: the files of one journal at a URL: errors in one sentence, and tried again if they may pass

Nothing at a URL is taken for what it should be: it is read, and held against the seals in the manifest.

Tests: ``tests/archive``.
"""
