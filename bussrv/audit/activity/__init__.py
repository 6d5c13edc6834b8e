"""The tables of sessions, services, boots, refusals and links. Each function takes records, or other tables."""
