"""Training of a built graph with transformers.Trainer: data, losses, callbacks, checkpoints."""
