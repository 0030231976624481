"""Number formats: one file a family, registered by name when the package is walked."""
