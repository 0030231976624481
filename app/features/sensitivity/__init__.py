"""Panel Sensitivity."""
