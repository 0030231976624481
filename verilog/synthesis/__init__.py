"""Synthesis by Yosys, and place and route by nextpnr."""
