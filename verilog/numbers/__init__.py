"""Numbers as hardware holds them: codes, scales, sums, and the changes between formats."""
