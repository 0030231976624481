"""What instances take on an FPGA: a grid of syntheses, and a model of few coefficients that is fitted to it."""
