"""Sessions: their admission, what they are told of others, and their end."""
