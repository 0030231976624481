"""Panel Deploy: the model over a mesh of devices."""
