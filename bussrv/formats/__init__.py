"""The Twisted side of each wire format: Protocol, Factory, plugin."""
