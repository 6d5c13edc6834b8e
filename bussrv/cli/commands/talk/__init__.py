"""Commands that are clients of a bus."""
