"""The netlist of a design in memory: streams, templates, instances and wires, and the part that the host computes."""
