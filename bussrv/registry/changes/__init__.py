"""Changes of the registry: checked, journaled, applied, told."""
