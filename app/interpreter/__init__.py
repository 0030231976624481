"""The process behind the window's Python console. It stands above the Python interface, which it offers; no Qt."""
