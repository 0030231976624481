"""Which values of a tensor go: scores of its elements, patterns that they fall in, and the masks of both."""
