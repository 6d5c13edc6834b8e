"""Sessions that are given the same bytes: groups, frames, and how they are sent."""
