"""The exported Verilog as a shared library: built by Verilator, driven like a board."""
