"""The Service providing protocol."""
