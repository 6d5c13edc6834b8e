"""The registry events on disk, in order.

- ``evidence``: the one judge of a journal: whether lines, segments, headers, seals and the manifest are what they
  should be
- ``ages``: the ages of closed segments, by clocks that may be set
- ``batch``: batches of entries to segments: what the writer thread does
- ``bounded``: opening segments, so that no more of them is read or inflated than `bussrv.journal.bounds` allows
- ``bounds``: the bounds of a journal: how much of it is read, inflated, kept in memory and told
- ``chain``: the chain: every line of a journal, and of its manifest, holds the hash of the line before it
- ``checkpoints``: the checkpoints in seals: C2SP checkpoints of the tree of a journal
- ``closed``: closed segments: made read-only, perhaps compressed, one day removed
- ``condition``: the condition of a journal that is being written, for who watches a server
- ``digests``: digests of segments, as they were before they were compressed
- ``files``: everything that the journal does to the disk, in one place, so that tests can use a disk that fails
- ``header``: the beginning of a segment: its header, and the registry before its first record, in one line or more
- ``instants``: times as people name them: ``yesterday``, ``-2h``, ``14:02``, with or without a time zone
- ``interfaces``: the requests that others may make of a journal
- ``keys``: the Ed25519 keys that sign a manifest: in files, under its lines, and one after the other
- ``leaves``: the leaves of the tree of a journal, read from its segments, for proofs
- ``lines``: the lines of records after one of them, read a page at a time while the server writes the journal
- ``lock``: one journal directory, one server
- ``manifest``: the manifest of a journal: seals, keys, and removed segments
- ``manifest_file``: the file of a manifest: read a line at a time, up to the bounds, and added to
- ``memory``: a journal that is not on disk: for ``--journal off``
- ``moments``: moments of a journal, as people name them
- ``others``: the knowledge of others about a journal, as an auditor names it: keys of witnesses, and files with
  checkpoints
- ``outlook``: how long the disk of the journal lasts at the present rate
- ``outside_changes``: changes by other programs of a file that only the server writes to, noticed before a seal or an
  answer gets wrong
- ``pseudonym_keys``: the key file: what leads from pseudonyms to identities
- ``pseudonyms``: how a journal that nobody can change forgets a person
- ``reading``: reading a journal from outside, while a server may be writing it: nothing is locked, nothing is changed
- ``record``: one journal record: a registry event with its stamp, as one line of JSON. The only codec of records
- ``record_tree``: the Merkle tree of the records of a journal, beside the chain
- ``recovery``: opening a journal directory
- ``regular``: opening regular files only
- ``salvage``: going on after damage: all that can still be read of a journal, and the beginning of a new chain
- ``scan``: read one segment from its beginning to its end, past everything that is wrong with it
- ``sealing``: adds digests of segments, and removals, to the manifest of a journal
- ``segment``: the files of a journal directory
- ``ship_watch``: whether closed segments reach the object store in time, and how far retention may remove them here
- ``shipped``: what of a journal is in an object store: a file that ``bussrv journal ship`` writes and the server reads
- ``space``: how much room the volume of the journal has, so that the journal never fills it
- ``upkeep``: the upkeep of a journal: work on its segments besides writing records, such as retention
- ``verify``: is a journal what its server wrote? Every line, every header, every seal is judged; nothing is changed
- ``versions``: the schema versions of the journal, and what lines of an older one say in the words of today's
- ``writer``: how records become durable: one writer thread, one sync for everything that queued up meanwhile

Tests: ``tests/journal``.
"""
