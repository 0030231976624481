"""The history of edits as a list that jumps."""
