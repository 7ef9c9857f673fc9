"""The window-join operator behind AXI: fed from memory, or from AXI4-Stream ports."""
