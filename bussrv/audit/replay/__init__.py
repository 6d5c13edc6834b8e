"""What was there at a moment, and what happened to somebody, and why."""
