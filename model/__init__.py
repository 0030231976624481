"""The document's values (graph, formats, recipe, weights, data) and how models come in: no Qt, no passes."""
