"""What other programs can hold of the model, layer by layer, before it is exported."""
