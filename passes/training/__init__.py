"""Training a built graph with transformers.Trainer: what is minimised, on what, how it is watched."""
