"""Counting: how many of each, how long, and how often."""
