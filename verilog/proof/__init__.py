"""Is the text right: lint, simulation against the integer model, and waves of what happened."""
