"""Findings about records that contradict each other."""
