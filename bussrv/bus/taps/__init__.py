"""Taps: operators see objects that pass."""
