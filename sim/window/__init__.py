"""The window-join operator's Verilog, compiled by Verilator: for windows of a real size."""
