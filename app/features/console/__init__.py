"""The Python console of the window. The interpreter runs in a process of its own, `espalier.app.interpreter`."""
