"""The kernel: a join pipeline behind AXI, as Vitis and PYNQ expect it."""
