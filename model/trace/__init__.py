"""A torch or Hugging Face model → Graph: exported by torch, then raised to the modules that it came from."""
