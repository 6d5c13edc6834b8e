"""Limits to what sessions may journal."""
