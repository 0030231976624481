"""The states that can be compared, and their comparison."""
