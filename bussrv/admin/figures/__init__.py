"""Figures of the server: health, metrics, limits, and what changes every second."""
