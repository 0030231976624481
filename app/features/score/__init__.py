"""The score in the status bar and its baseline."""
