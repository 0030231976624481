"""Plans of a model over a mesh of devices: placements, collectives, costs, and the plan of least cost."""
