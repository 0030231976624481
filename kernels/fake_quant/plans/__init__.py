"""One module per family of formats: the constants of its loop. Importing them needs no torch."""
