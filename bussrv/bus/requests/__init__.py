"""Requests that are open: who may reply, and who is told if nobody can."""
