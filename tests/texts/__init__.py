"""The texts of the window: extracted for translators, and looked for in the open window."""
