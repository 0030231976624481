"""The window round the features: docks, menus, pages, and what ties a feature to the rest."""
