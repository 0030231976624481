"""The rows of the menus, one module per menu, and the functions that they call."""
