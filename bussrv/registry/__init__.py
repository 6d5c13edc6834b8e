"""Every session, service and subscription, right now: a fold of registry events."""
