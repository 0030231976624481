"""From a graph to SystemVerilog: lowering, writing, templates, simulation and synthesis."""
