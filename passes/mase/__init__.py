"""The dialect of MASE, the course tool whose package is `chop`: its recipes, and its passes run unchanged."""
