"""TLS, at ports and at links."""
