"""The registry as it is: a fold of events."""
