"""Answers to the kernels' questions: bits, passes over memory, tiles, and metrics measured on this machine."""
