"""Data and SVG drawings of charts: tensors, curves, studies, node captions. No widgets."""
