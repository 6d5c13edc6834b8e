"""The registry: every session, service and subscription, as a fold of events."""
