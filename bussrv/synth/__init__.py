"""Journals of servers that never ran, of any size and with known faults: to test, to measure and to try the audit."""
