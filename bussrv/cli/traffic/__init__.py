"""Clients of a bus, for the commands."""
