"""A board without the board: PYNQ's remote protocol in front of Verilated kernels."""
