"""What is learned from tensors that stream by: moments, histograms, samples of rows, errors; and what follows of it."""
