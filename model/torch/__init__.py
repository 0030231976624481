"""Graph → torch module: layers in formats, masks and adapters, and functions and leaves by name."""
