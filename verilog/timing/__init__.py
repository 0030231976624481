"""Cycle-accurate schedule of a design, and the FIFOs that it needs."""
