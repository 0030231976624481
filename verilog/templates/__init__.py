"""One file per operation: ports, body, bit-exact integer model and cost estimate."""
