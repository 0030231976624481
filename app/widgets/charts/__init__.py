"""The frame of a chart, its picture as a file, and axes that several features share."""
