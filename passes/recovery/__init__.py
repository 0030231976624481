"""What passes share that win back accuracy after quantisation: running layer by layer, and fixed scales."""
