"""Transports: TCP, UDP and what stands before them."""
