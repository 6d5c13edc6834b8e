"""What is read of the journal: its condition, its records, and the past."""
