"""Bytes to events and back, one module a wire format. Pure: no Twisted, no clock, no logging, no policy."""
