"""Area model: estimates of FPGA resources by a few coefficients per module, fitted to a grid of syntheses."""
