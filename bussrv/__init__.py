"""A message bus server on Twisted: five wire formats, one registry, one audited journal."""
