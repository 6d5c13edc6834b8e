"""A message bus server on Twisted: four wire formats, one registry, one audited journal."""
