"""Commands that watch and steer a running server."""
