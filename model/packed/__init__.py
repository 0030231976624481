"""Packed models: every weight in the bits of its format, in one safetensors file."""
