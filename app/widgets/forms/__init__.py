"""Editors of options, formats and data, derived from their types; every panel builds on them."""
