"""A set of files that a server can be exposed with, made at once. Beside the layers: no server imports it."""
