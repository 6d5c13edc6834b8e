"""Who a client is, as far as it can prove it."""
