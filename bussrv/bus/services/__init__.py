"""Services: publications on them, across wire formats, and those that the server itself provides."""
