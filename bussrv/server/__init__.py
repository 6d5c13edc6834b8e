"""The composition root: options, configuration and the service that ties everything together."""
