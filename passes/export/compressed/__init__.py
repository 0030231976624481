"""Hugging Face folders with weights as integers and small floats, as compressed-tensors reads them."""
