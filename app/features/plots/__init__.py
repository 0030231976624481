"""The Plots panel."""
