"""The docks around the canvas, one file each."""
