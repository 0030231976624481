"""Traces a torch or Hugging Face model to a Graph: torch.export, then recovery of the original modules."""
