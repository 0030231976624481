"""Writes ExecuTorch's programs (.pte) for its backend XNNPACK, and runs them in a process of its own."""
