"""Data sets: generated, bundled, and read from a folder, a file or the Hugging Face hub."""
