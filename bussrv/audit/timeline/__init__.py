"""The history of one client or service across journals, with causes: ``bussrv timeline``."""
