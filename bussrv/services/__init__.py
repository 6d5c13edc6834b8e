"""The services that the server itself provides, and what hosts them."""
