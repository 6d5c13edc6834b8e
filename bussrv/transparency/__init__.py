"""Open formats of transparency logs: a Merkle tree, signed notes, checkpoints, cosignatures and proofs. Pure.

Nothing here opens a file, asks a clock, or knows of a journal. Tools that exist check what is made here: the formats
are those of RFC 6962 and of C2SP (signed-note, tlog-checkpoint, tlog-cosignature and tlog-proof, each at version 1).

- ``tree``: the Merkle tree of RFC 6962: hashes, the right edge, inclusion and consistency proofs
- ``notes``: signed notes: a text and the signatures under it, and the keys that make and check them
- ``cosignatures``: what a key of each type signs: a note itself, or a checkpoint with the time of a cosignature
- ``checkpoints``: checkpoints: the size and the root hash of a log, as the text of a note
- ``witnessing``: what a log asks of a witness, and what the witness judges
- ``proofs``: tlog-proof: one entry of a log, its path to the root of a checkpoint, and the checkpoint
"""
