"""Number formats of the hardware: integer codes, and exact conversions between formats."""
