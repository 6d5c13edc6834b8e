"""Routing: interests, recipients, fan-out, links to other servers and the bridge across formats."""
