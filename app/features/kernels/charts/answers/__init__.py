"""Pictures of answers about kernels, drawn in the theme."""
