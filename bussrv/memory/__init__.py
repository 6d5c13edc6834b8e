"""Memory that connections hold, and the turns in which they are sent to."""
