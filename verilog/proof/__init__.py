"""Verification of the emitted SystemVerilog: lint, simulation against the integer model, handshake waveforms."""
