"""The state of a journal at any moment, for people and programs."""
