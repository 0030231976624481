"""Comparing two states of the document, trials or files: side by side, in one picture, as a table."""
