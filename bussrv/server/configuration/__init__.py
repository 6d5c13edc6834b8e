"""The configuration: options, where their values come from, and what is checked before a start."""
