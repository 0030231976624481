"""What the kernels' questions are answered with: bits, passes over memory, tiles, and figures measured here."""
