"""Panel Inspector: one module per section."""
