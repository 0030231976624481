"""Bit-exact emulation of the hardware in place of the float model, for the whole model or a node."""
