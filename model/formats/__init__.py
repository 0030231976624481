"""Number formats: one file a family, registered by name when the package is walked."""

UNWALKED = ("straight_through",)  # it registers nothing, and loads torch
