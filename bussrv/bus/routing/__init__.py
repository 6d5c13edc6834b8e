"""Routing: who gets an object, one by one, in batches, and by the compiled module."""
