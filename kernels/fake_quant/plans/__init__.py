"""One module per family of formats: the constants of its loop. Importing them does not import torch."""
