"""Commands that make and check the files of a server."""
