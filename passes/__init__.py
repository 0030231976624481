"""Functions over graphs: analyses find, transforms change, searches choose."""
