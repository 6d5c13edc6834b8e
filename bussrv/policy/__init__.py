"""Who a client is, and what it may do. Imports neither the bus nor wire formats."""
