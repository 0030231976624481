"""The panel Sensitivity."""
