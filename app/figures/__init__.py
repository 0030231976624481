"""What is drawn, as numbers or as SVG: parts of tensors, curves, studies, captions of nodes. No widgets."""
