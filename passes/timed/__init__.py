"""What measurements of a running model share: inputs, a part of it, weights rounded once, words for figures."""
