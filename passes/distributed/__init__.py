"""A sharded model at work: ranks started by torchrun, on torch's DTensor."""
