"""Scores and quantises models larger than memory: segment by segment, with weights read from safetensors shards."""
