"""Everything that can be done from menus, toolbar, keys and palette: the table, and what the entries do."""
