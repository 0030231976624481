"""Number formats: one module per family, registered by name when the package is imported."""

UNWALKED = ("straight_through",)  # registers nothing and imports torch
