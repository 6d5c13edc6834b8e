"""Small blocking clients for each wire format, for integrators."""
