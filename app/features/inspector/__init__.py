"""The inspector, a file for each of its parts."""
