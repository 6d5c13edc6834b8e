"""A running server: its parts, started, reloaded and stopped in order."""
