"""Runs of a model on data: splits, batches, observation of tensors."""
