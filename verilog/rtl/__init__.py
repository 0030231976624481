"""SystemVerilog: the library modules (`.sv` files here), edited copies of them, and the writing of a design."""
