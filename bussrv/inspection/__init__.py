"""What a journal said at any moment, for people and programs."""
