"""The admin interface: an HTTP server that shows what the bus does, and steers it."""
