"""Source text with colours, marks and a search in it."""
