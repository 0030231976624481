"""One folder a feature: panel, charts, state, actions, commands. None imports another."""
