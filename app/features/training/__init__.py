"""Panel Training."""
