"""The panel Sweeps."""
