"""Connections over a network, of any protocol."""
