"""Hugging Face folders whose weights are tensors of torchao, as transformers reads them."""
