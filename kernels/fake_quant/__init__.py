"""Fast fake quantisation: plans say which loop a format takes with which constants; one backend a device runs it."""
