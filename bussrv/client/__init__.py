"""What integrators import: small blocking clients for each wire format."""
