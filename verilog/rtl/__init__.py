"""SystemVerilog: the modules of the library, which lie here, edited copies of them, and the writing of a design."""
