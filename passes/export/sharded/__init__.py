"""A folder that runs a sharded model by torchrun: a sharded checkpoint, the plan, a program and launch scripts."""
