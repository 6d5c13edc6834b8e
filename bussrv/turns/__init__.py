"""Time: the clocks of a server, and work that is done a slice or a reactor turn at a time."""
