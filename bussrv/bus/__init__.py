"""Who gets what: interest, routing, fan-out and the bridge across formats."""
