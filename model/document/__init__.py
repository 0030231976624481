"""What a person edits and saves: document, recipe, project file, and values as JSON."""
