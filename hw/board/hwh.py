"""The hardware handoff of a Zynq design, as PYNQ reads it: kernels, registers, clock.

Vivado writes a handoff beside a bitstream. This one describes the kernels without Vivado, from the
declaration of their registers. It leaves interrupts out: PYNQ reads those behind an interrupt
controller only, and designs wire ours to the processing system (:mod:`penstock.hw.board.scripts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as xml

from penstock.constraints.boards import Board

from ..kernel.description import CONTROL, Description
from ..kernel.registers import RANGE_BYTES, Access, Register
from . import gpio
from .placement import System, register_range, system_of

#: PYNQ sets the clocks of the programmable logic to what the handoff says; the first is ours.
_CLOCKS = 4


def handoff(
    description: Description, board: Board, instances: Sequence[str], *, leds: bool = False
) -> str:
    """XML of a design with some kernels.

    Parameters
    ----------
    description : Description
        The kernel.
    board : Board
    instances : sequence of str
        Names of its copies, in the order of their addresses.
    leds : bool
        Whether an AXI GPIO lies behind them (:mod:`penstock.hw.board.gpio`).
    """
    system = system_of(board)
    root = xml.Element("EDKSYSTEM", EDWVERSION="1.2", TIMESTAMP="", VIVADOVERSION="2024.1")
    device, _, package = board.part.removeprefix("xc").partition("-")
    xml.SubElement(root, "SYSTEMINFO", ARCH="zynq", DEVICE=device, NAME="penstock", PACKAGE=package)
    xml.SubElement(root, "EXTERNALPORTS")
    xml.SubElement(root, "EXTERNALINTERFACES")
    modules = xml.SubElement(root, "MODULES")
    for name in instances:
        _kernel(modules, description, name)
    subordinates = [(name, CONTROL) for name in instances]
    if leds:
        _leds(modules)
        subordinates.append((gpio.NAME, gpio.PORT))
    _system(modules, system, board, subordinates)
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _module(modules: xml.Element, name: str, kind: str, vlnv: str, **more: str) -> xml.Element:
    attributes = {"FULLNAME": f"/{name}", "INSTANCE": name, "MODTYPE": kind, "VLNV": vlnv}
    return xml.SubElement(modules, "MODULE", attributes | more)


def _bus(buses: xml.Element, name: str, kind: str) -> None:
    vlnv = "xilinx.com:interface:aximm:1.0"
    bus = xml.SubElement(buses, "BUSINTERFACE", NAME=name, TYPE=kind, VLNV=vlnv)
    xml.SubElement(bus, "PORTMAPS")


def _kernel(modules: xml.Element, description: Description, name: str) -> None:
    module = _module(modules, name, description.kernel, description.vlnv, IPTYPE="PERIPHERAL")
    registers = _registers(module, CONTROL, RANGE_BYTES)
    for register in description.registers.registers:
        for instance, offset in description.registers.instances(register):
            _register(registers, register, instance, offset)
    xml.SubElement(module, "PARAMETERS")
    xml.SubElement(module, "PORTS")
    buses = xml.SubElement(module, "BUSINTERFACES")
    _bus(buses, CONTROL, "SLAVE")
    for port in description.ports:
        _bus(buses, port, "MASTER")


def _leds(modules: xml.Element) -> None:
    module = _module(modules, gpio.NAME, gpio.KIND, gpio.VLNV, IPTYPE="PERIPHERAL")
    registers = _registers(module, gpio.PORT, RANGE_BYTES)
    _word(registers, "GPIO_DATA", gpio.DATA, "Channel 1 data.", "read-write")
    _word(registers, "GPIO_TRI", gpio.TRI, "Channel 1 3-state control.", "read-write")
    parameters = xml.SubElement(module, "PARAMETERS")
    for name, value in {"C_GPIO_WIDTH": str(gpio.WIDTH), "C_ALL_OUTPUTS": "1"}.items():
        xml.SubElement(parameters, "PARAMETER", NAME=name, VALUE=value)
    xml.SubElement(module, "PORTS")
    _bus(xml.SubElement(module, "BUSINTERFACES"), gpio.PORT, "SLAVE")


def _registers(module: xml.Element, port: str, size: int) -> xml.Element:
    """The element for the registers behind a port."""
    block = xml.SubElement(
        xml.SubElement(module, "ADDRESSBLOCKS"),
        "ADDRESSBLOCK",
        ACCESS="read-write",
        INTERFACE=port,
        NAME="reg0",
        RANGE=str(size),
        USAGE="register",
    )
    return xml.SubElement(block, "REGISTERS")


def _register(parent: xml.Element, register: Register, name: str, offset: int) -> None:
    """The element of a register; a wide register is several words of a processor."""
    words = register.bits // 32
    access = "read-only" if register.access is Access.STATUS else "read-write"
    for word in range(words):
        own = name if words == 1 else f"{name}_{word + 1}"
        text = register.text
        item = _word(parent, own, offset + 4 * word, text, access)
        fields = xml.SubElement(item, "FIELDS")
        for field, (bit, meaning) in register.fields.items():
            entry = xml.SubElement(fields, "FIELD", NAME=field)
            _properties(
                entry,
                {
                    "DESCRIPTION": meaning,
                    "ACCESS": access,
                    "BIT_OFFSET": str(bit),
                    "BIT_WIDTH": "1",
                },
            )


def _word(parent: xml.Element, name: str, offset: int, text: str, access: str) -> xml.Element:
    item = xml.SubElement(parent, "REGISTER", NAME=name)
    _properties(
        item,
        {
            "DESCRIPTION": text,
            "ADDRESS_OFFSET": f"0x{offset:X}",
            "SIZE": "32",
            "ACCESS": access,
            "IS_ENABLED": "true",
            "RESET_VALUE": "0x0",
        },
    )
    return item


def _properties(parent: xml.Element, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        xml.SubElement(parent, "PROPERTY", NAME=name, VALUE=value)


def _system(
    modules: xml.Element,
    system: System,
    board: Board,
    subordinates: Sequence[tuple[str, str]],
) -> None:
    """The processing system, and what it reaches: names and ports in the order of addresses."""
    vlnv = f"xilinx.com:ip:{system.name}:{system.version}"
    module = _module(
        modules, system.instance, system.name, vlnv, IPTYPE="PERIPHERAL", IS_PL="FALSE"
    )
    parameters = xml.SubElement(module, "PARAMETERS")
    for name, value in clock_parameters(system, board.clock_mhz).items():
        xml.SubElement(parameters, "PARAMETER", NAME=name, VALUE=value)
    xml.SubElement(module, "PORTS")
    buses = xml.SubElement(module, "BUSINTERFACES")
    _bus(buses, system.manager, "MASTER")
    ranges = xml.SubElement(module, "MEMORYMAP")
    for number, (name, port) in enumerate(subordinates):
        addresses = register_range(board, number)
        xml.SubElement(
            ranges,
            "MEMRANGE",
            ADDRESSBLOCK="reg0",
            BASENAME="C_BASEADDR",
            BASEVALUE=f"0x{addresses.start:08X}",
            HIGHNAME="C_HIGHADDR",
            HIGHVALUE=f"0x{addresses.stop - 1:08X}",
            INSTANCE=name,
            IS_DATA="TRUE",
            MASTERBUSINTERFACE=system.manager,
            MEMTYPE="REGISTER",
            SLAVEBUSINTERFACE=port,
        )


def clock_parameters(system: System, clock_mhz: int) -> dict[str, str]:
    """Parameters of a processing system with one clock in use, the first."""
    divisor = system.divisor(clock_mhz)
    found = {}
    for number in range(_CLOCKS):
        enabled = "1" if number == 0 else "0"
        if system.name == "processing_system7":
            found[f"PCW_FPGA_FCLK{number}_ENABLE"] = enabled
            found[f"PCW_FCLK{number}_PERIPHERAL_DIVISOR0"] = str(divisor)
            found[f"PCW_FCLK{number}_PERIPHERAL_DIVISOR1"] = "1"
            found[f"PCW_FCLK{number}_PERIPHERAL_CLKSRC"] = "IO PLL"
        else:
            control = f"PSU__CRL_APB__PL{number}_REF_CTRL"
            found[f"PSU__FPGA_PL{number}_ENABLE"] = enabled
            found[f"{control}__DIVISOR0"] = str(divisor)
            found[f"{control}__DIVISOR1"] = "1"
            found[f"{control}__SRCSEL"] = "IOPLL"
            found[f"{control}__ACT_FREQMHZ"] = f"{system.pll_mhz / divisor:g}"
    return found
