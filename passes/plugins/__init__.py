"""Plug-ins: passes, formats and costs of the user's own, loaded from files, and told to the window as plain data."""
