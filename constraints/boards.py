"""The boards that kernels are built for, and what their parts hold.

Cells are the manufacturer's figures for the whole part; an Alveo card's shell takes a share of
them before any kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.errors import UsageError


class ToolFlow(StrEnum):
    """Which tools make the file that is loaded into a board."""

    #: ``v++`` links kernels into an xclbin.
    VITIS = "vitis"
    #: A block design with the processing system becomes a bitstream and its hwh.
    VIVADO = "vivado"


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board and its part.

    Parameters
    ----------
    part : str
        Name of the part for the tools.
    platform : str
        Vitis platform of an Alveo card; Vivado's board part of a Zynq board, whose last number is
        the tools' choice where it is an x.
    flow : Flow
    lut, ff : int
        6-input LUTs and flip-flops.
    bram, uram : int
        Block RAMs of 36 kbit, and UltraRAMs of 288 kbit.
    dsp : int
        DSP slices.
    slrs : int
        Dies of the part; paths between them are slow.
    memory : str
        Kind of memory that kernels read and write: HBM, DDR, or PS (the processing system's).
    banks : int
        Independent ports to it: pseudo-channels of HBM, DIMMs of DDR, 1 of a processing system.
    bank_mib : int
        Size of each, in MiB: no buffer of a card is larger than a bank.
    port_bits : int
        Width of a kernel's memory ports: that of a port of the memory or of its controller.
    memory_gb_s : float
        Peak bandwidth of that memory, all ports together, in 10^9 bytes per second.
    clock_mhz : int
        Clock that builds ask the tools for. No build of Penstock has been timed on a board.
    pynq : str
        Version of the ``pynq`` package that drives the board.
    """

    part: str
    platform: str
    flow: ToolFlow
    lut: int
    ff: int
    bram: int
    uram: int
    dsp: int
    slrs: int
    memory: str
    banks: int
    bank_mib: int
    port_bits: int
    memory_gb_s: float
    clock_mhz: int
    pynq: str


BOARDS = {
    "u50": Board(
        part="xcu50-fsvh2104-2-e",
        platform="xilinx_u50_gen3x16_xdma_5_202210_1",
        flow=ToolFlow.VITIS,
        lut=871_680,
        ff=1_743_360,
        bram=1_344,
        uram=640,
        dsp=5_952,
        slrs=2,
        memory="HBM",
        banks=32,
        bank_mib=256,
        port_bits=256,
        memory_gb_s=316,
        clock_mhz=300,
        pynq="3.0.1",
    ),
    "u200": Board(
        part="xcu200-fsgd2104-2-e",
        platform="xilinx_u200_gen3x16_xdma_2_202110_1",
        flow=ToolFlow.VITIS,
        lut=1_182_240,
        ff=2_364_480,
        bram=2_160,
        uram=960,
        dsp=6_840,
        slrs=3,
        memory="DDR",
        banks=4,
        bank_mib=16_384,
        port_bits=512,
        memory_gb_s=77,
        clock_mhz=300,
        pynq="3.0.1",
    ),
    "u250": Board(
        part="xcu250-figd2104-2L-e",
        platform="xilinx_u250_gen3x16_xdma_4_1_202210_1",
        flow=ToolFlow.VITIS,
        lut=1_728_000,
        ff=3_456_000,
        bram=2_688,
        uram=1_280,
        dsp=12_288,
        slrs=4,
        memory="DDR",
        banks=4,
        bank_mib=16_384,
        port_bits=512,
        memory_gb_s=77,
        clock_mhz=300,
        pynq="3.0.1",
    ),
    # The platform is for tools up to 2023.x.
    "u280": Board(
        part="xcu280-fsvh2892-2L-e",
        platform="xilinx_u280_gen3x16_xdma_1_202211_1",
        flow=ToolFlow.VITIS,
        lut=1_303_680,
        ff=2_607_360,
        bram=2_016,
        uram=960,
        dsp=9_024,
        slrs=3,
        memory="HBM",
        banks=32,
        bank_mib=256,
        port_bits=256,
        memory_gb_s=460,
        clock_mhz=300,
        pynq="3.0.1",
    ),
    "pynq-z2": Board(
        part="xc7z020clg400-1",
        platform="tul.com.tw:pynq-z2:part0:1.0",
        flow=ToolFlow.VIVADO,
        lut=53_200,
        ff=106_400,
        bram=140,
        uram=0,
        dsp=220,
        slrs=1,
        memory="PS",
        banks=1,
        bank_mib=512,
        port_bits=64,
        memory_gb_s=2.1,
        clock_mhz=100,
        pynq="3.1.2",
    ),
    "zcu104": Board(
        part="xczu7ev-ffvc1156-2-e",
        platform="xilinx.com:zcu104:part0:1.1",
        flow=ToolFlow.VIVADO,
        lut=230_400,
        ff=460_800,
        bram=312,
        uram=96,
        dsp=1_728,
        slrs=1,
        memory="PS",
        banks=1,
        bank_mib=2_048,
        port_bits=128,
        memory_gb_s=19.2,
        clock_mhz=200,
        pynq="4.0.0",
    ),
    "kv260": Board(
        part="xck26-sfvc784-2LV-c",
        platform="xilinx.com:kv260_som:part0:1.x",
        flow=ToolFlow.VIVADO,
        lut=117_120,
        ff=234_240,
        bram=144,
        uram=64,
        dsp=1_248,
        slrs=1,
        memory="PS",
        banks=1,
        bank_mib=4_096,
        port_bits=128,
        memory_gb_s=19.2,
        clock_mhz=200,
        pynq="4.0.0",
    ),
    "ultra96v2": Board(
        part="xczu3eg-sbva484-1-i",
        platform="avnet.com:ultra96v2:part0:1.x",
        flow=ToolFlow.VIVADO,
        lut=70_560,
        ff=141_120,
        bram=216,
        uram=0,
        dsp=360,
        slrs=1,
        memory="PS",
        banks=1,
        bank_mib=2_048,
        port_bits=128,
        memory_gb_s=4.3,
        clock_mhz=200,
        pynq="4.0.0",
    ),
}


#: Lowest clock that is asked for, in MHz: the tools' clock generators divide no further.
LEAST_CLOCK_MHZ = 25


def board(name: str, clock_mhz: int | None = None) -> Board:
    """A board by its name.

    Parameters
    ----------
    name : str
    clock_mhz : int, optional
        Clock to build for instead of the board's, never above it: such a build meets its timing
        more easily.

    Raises
    ------
    UsageError
        There is no such board in the table, or the clock is out of range.
    """
    if name not in BOARDS:
        raise UsageError(f"there is no board named {name!r}; choose one of {', '.join(BOARDS)}")
    entry = BOARDS[name]
    if clock_mhz is None:
        return entry
    if not LEAST_CLOCK_MHZ <= clock_mhz <= entry.clock_mhz:
        raise UsageError(
            f"kernels of {name} are built for {LEAST_CLOCK_MHZ} to {entry.clock_mhz} MHz, "
            f"not {clock_mhz}"
        )
    return replace(entry, clock_mhz=clock_mhz)
