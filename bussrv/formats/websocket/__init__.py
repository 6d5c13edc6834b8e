"""Objects over WebSocket."""
