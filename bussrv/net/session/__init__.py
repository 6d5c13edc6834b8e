"""A session over a stream connection, of any wire format."""
