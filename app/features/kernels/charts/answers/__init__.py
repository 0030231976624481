"""Pictures of the answers of the tab How it works."""
