"""The registry events on disk, in order."""
