"""Numbers as hardware holds them: integer codes of a format, and exact changes between formats."""
