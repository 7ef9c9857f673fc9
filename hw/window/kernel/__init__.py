"""The window-join operator behind AXI, fed from memory."""
