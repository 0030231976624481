"""The score in the status line, and what it is compared with."""
