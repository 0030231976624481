"""Statistics of streamed tensors: moments, histograms, row samples, errors; scales and shifts chosen from them."""
