"""The public Python API behind `import espalier`; everything else may change.

It is part of `app`, above the commands, since it draws graphs and opens the window; it imports no Qt.
"""
