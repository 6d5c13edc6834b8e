"""Authentication of clients and their permissions. Imports neither the bus nor wire formats."""
