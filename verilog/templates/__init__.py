"""Hardware templates, one file per operation: parameters, memories, bit-exact integer model and cycle model."""
