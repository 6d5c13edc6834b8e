"""Inbus: datagrams of small devices."""
