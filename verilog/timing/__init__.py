"""When every beat moves: the schedule of a design, cycle by cycle, and the FIFOs that it needs."""
