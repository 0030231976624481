"""The Python interface behind `import espalier`: small and stable; everything else may change.

It lies in `app`, over the command line's code, because drawing and opening the window do; it imports no Qt.
"""
