"""The tables: who was there, what was provided, and what went wrong. Each function takes records, or other tables."""
