"""The graph canvas: a pure layout, the painting, and the gestures on it."""
