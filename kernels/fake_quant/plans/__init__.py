"""One file a family of formats: how a format becomes the constants of a loop. Importing them needs no torch."""
