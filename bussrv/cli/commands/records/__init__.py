"""Commands that read journals."""
