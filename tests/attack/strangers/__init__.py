"""Malicious files of strangers, each of which would write a marker if anything of it ran or wrote where it says."""
