"""When every beat moves: schedules, FIFOs, and the parallelism that keeps a pace."""
