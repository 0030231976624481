"""Charts of sensitivities: heat map, bars, dots."""
