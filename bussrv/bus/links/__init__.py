"""Links to other servers: their coming and going, and the sessions that are reached over them."""
