"""The open document and what lives as long as it: edits, recovery, what is asked of the worker."""
