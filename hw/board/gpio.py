"""The vendor's AXI GPIO beside the kernels of a Zynq design: four wires to LEDs.

Penstock does not use it. It serves to see that a board answers: PYNQ's own self-test of remote
boards needs it.
"""

from __future__ import annotations

#: Name in a design, type, and its port.
NAME, KIND, PORT = "leds_gpio", "axi_gpio", "S_AXI"
VLNV = f"xilinx.com:ip:{KIND}:2.0"
WIDTH = 4
#: Offsets of its registers (PG144).
DATA, TRI = 0x0, 0x4
