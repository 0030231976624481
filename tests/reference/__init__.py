"""Writes the pages of the guide that follow from the code: references, the list of decisions, measured figures."""
