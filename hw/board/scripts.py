"""Scripts for the vendor's tools: they package the kernel and build the file that a board loads.

What they say is in the templates of :mod:`penstock.constraints.templates`; here placeholders are
filled. Nobody has run them here. Tests run them in a Tcl interpreter that records the vendor's
commands, and compare these with public scripts.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.constraints.boards import Board, ToolFlow
from penstock.constraints.templates import fill

from ..kernel.description import CONTROL, Description
from ..kernel.link import die_of
from ..kernel.registers import RANGE_BYTES
from .placement import clock_of, register_range, shared_ports, system_of

#: Names of the files.
PACKAGE, DESIGN, XDC, PBLOCKS = "package.tcl", "design.tcl", "board.xdc", "pblocks.tcl"


def build_scripts(
    description: Description, board: Board, instances: Sequence[str]
) -> dict[str, str]:
    """Scripts that build an overlay of some copies of a kernel, by their names.

    Parameters
    ----------
    description : Description
        The kernel. Its Verilog lies beside the scripts, for an Alveo card with its ``kernel.xml``
        and ``link.cfg``.
    board : Board
    instances : sequence of str
        Names of the copies.
    """
    scripts = {PACKAGE: package_script(description, board)}
    if board.flow is ToolFlow.VIVADO:
        scripts[DESIGN] = design_script(description, board, instances)
        scripts[XDC] = fill(XDC, clock_mhz=board.clock_mhz)
    else:
        dies = [f"  {name} {die_of(number, board)}" for number, name in enumerate(instances)]
        scripts[PBLOCKS] = fill(PBLOCKS, dies="\n".join(dies))
    return scripts


def package_script(description: Description, board: Board) -> str:
    """Tcl for Vivado: the Verilog as an IP, for an Alveo card also as a kernel (``.xo``)."""
    registers = [
        f"  {name} 0x{offset:X} {register.bits} {description.port_of(register) or '{}'}"
        for register in description.registers.registers
        for name, offset in description.registers.instances(register)
    ]
    return fill(
        PACKAGE,
        kernel=description.kernel,
        is_card=int(board.flow is ToolFlow.VITIS),
        part=board.part,
        vendor=description.vendor,
        library=description.library,
        version=description.version,
        interfaces=" ".join((CONTROL, *description.ports)),
        ports=" ".join(description.ports),
        clock_hz=round(clock_of(board) * 1e6),
        control=CONTROL,
        range_bytes=RANGE_BYTES,
        registers="\n".join(registers),
    )


def design_script(description: Description, board: Board, instances: Sequence[str]) -> str:
    """Tcl for Vivado: kernels beside the processing system, as a bitstream with its handoff."""
    system = system_of(board)
    addresses = [register_range(board, number).start for number in range(len(instances))]
    kernels = [
        f"  {name} 0x{address:08X}" for name, address in zip(instances, addresses, strict=True)
    ]
    memories = [
        f"  {{{' '.join(sharing)}}}"
        for sharing in shared_ports(board, instances, tuple(description.ports))
    ]
    return fill(
        DESIGN,
        system=system.instance,
        kernels="\n".join(kernels),
        memories="\n".join(memories),
        part=board.part,
        board_part=_pattern(board.platform),
        platform=board.platform,
        constraints=XDC,
        processing_system=fill(f"{system.name}.tcl", clock_mhz=board.clock_mhz),
        vlnv=description.vlnv,
        control=CONTROL,
        range_bytes=f"0x{RANGE_BYTES:X}",
        clock_mhz=board.clock_mhz,
    )


def _pattern(platform: str) -> str:
    """A pattern that matches a board part of any version."""
    return f"{{{platform.rpartition('.')[0]}.*}}" if platform.endswith("x") else platform
