"""Data as bars and as a confusion matrix."""
