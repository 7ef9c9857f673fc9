"""Descriptions of a kernel for host software and tools: table, C header, kernel.xml, document.

The table is all that host software reads; it never imports the hardware's sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from xml.etree import ElementTree as xml

from .registers import ARRAY_LENGTH, RANGE_BYTES, STATUS, Register, RegisterMap
from .sizes import ALIGN_BYTES, PortSizes
from .status import Status

#: The register file's port.
CONTROL = "s_axi_control"


@dataclass(frozen=True)
class Port:
    """A memory port.

    Parameters
    ----------
    carries : str
        What goes through it.
    pointers : tuple of Register
        Where in memory that is.
    writes : bool
        Whether the kernel writes; else it reads.
    is_shared : bool
        Whether all kernels of a card use the same buffers.
    """

    carries: str
    pointers: tuple[Register, ...]
    writes: bool = False
    is_shared: bool = False


@dataclass(frozen=True, kw_only=True)
class Description:
    """A build of a kernel, described without its sources.

    Parameters
    ----------
    kernel : str
        Name of the module, and of the kernel.
    library : str
        Library in the kernel's identifier.
    prefix : str
        What names in C begin with.
    registers : RegisterMap
    sizes : PortSizes
    ports : mapping of str to Port
    status : tuple of Status
        How a task may end.
    header : mapping of str to int
        Fields of the result header and their widths, from bit 0 on.
    counters : mapping of str to int
        Those of the fields that count something, and the most that they count in a cycle, in bits.
    room : str
        The counter of what results have room for.
    geometry : mapping
        Sizes of the build, besides those of the ports.
    modes : mapping of str to int, or None
        Modes of the build by their C names, with their codes; None where there are no modes.
    constants : mapping of str to (str, int)
        Further C constants, with what they mean.
    """

    kernel: str
    library: str
    prefix: str
    registers: RegisterMap
    sizes: PortSizes
    ports: Mapping[str, Port]
    status: tuple[Status, ...]
    header: Mapping[str, int]
    counters: Mapping[str, int]
    room: str
    geometry: Mapping[str, Any]
    modes: Mapping[str, int] | None = None
    constants: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    #: In the kernel's identifier.
    vendor: ClassVar[str] = "penstock"
    version: ClassVar[str] = "1.0"

    @property
    def vlnv(self) -> str:
        """Vendor, library, name and version, by which tools know the kernel."""
        return f"{self.vendor}:{self.library}:{self.kernel}:{self.version}"

    @property
    def shared(self) -> tuple[str, ...]:
        """Memory ports whose buffers all kernels of a card use."""
        return tuple(name for name, port in self.ports.items() if port.is_shared)

    @property
    def reads(self) -> tuple[str, ...]:
        """Memory ports that the kernel reads through."""
        return tuple(name for name, port in self.ports.items() if not port.writes)

    @property
    def writes(self) -> str:
        """The memory port that the kernel writes its results through."""
        (name,) = (name for name, port in self.ports.items() if port.writes)
        return name

    @property
    def watched(self) -> dict[str, int]:
        """Registers that the host reads, but for the status, with their widths."""
        return {
            name: register.bits
            for register, name, _ in self.registers.statuses
            if register is not STATUS
        }

    def port_of(self, register: Register) -> str | None:
        """The memory port of a pointer; None if the register is none."""
        found = (name for name, port in self.ports.items() if register in port.pointers)
        return next(found, None)

    def table(self) -> dict[str, Any]:
        """Registers, memory layout and geometry, as values that JSON can hold."""
        words = {"word_bytes": self.sizes.word_bytes, "align_bytes": ALIGN_BYTES}
        described: dict[str, Any] = {
            "kernel": self.kernel,
            "geometry": {**self.geometry, **words},
            "registers": [
                e for register in self.registers.registers for e in self._table(register)
            ],
            "ports": {name: port.carries for name, port in self.ports.items()},
            "status": {status.name: status.value for status in self.status},
        }
        if self.modes is not None:
            described["modes"] = {name.lower(): code for name, code in self.modes.items()}
        return {**described, "header": dict(self.header)}

    def _table(self, register: Register) -> list[dict[str, Any]]:
        entry: dict[str, Any] = {
            "bits": register.bits,
            "access": register.access.value,
            "text": register.text,
        }
        if port := self.port_of(register):
            entry["port"] = port
        if register.fields:
            entry["fields"] = {name: bit for name, (bit, _) in register.fields.items()}
        return [
            {"name": name, "offset": offset, **entry}
            for name, offset in self.registers.instances(register)
        ]

    def c_header(self) -> str:
        """Registers, status codes and header fields as C constants."""
        prefix, guard = self.prefix, f"{self.kernel.upper()}_H"
        lines = [f"/* {self.kernel}: generated, do not edit. */", f"#ifndef {guard}"]
        lines += [f"#define {guard}", ""]
        for register in self.registers.registers:
            lines.append(f"/* {register.text} */")
            for name, offset in self.registers.instances(register):
                lines.append(f"#define {prefix}_{name.upper()} 0x{offset:02X}u")
            for name, (bit, _) in register.fields.items():
                lines.append(
                    f"#define {prefix}_{register.name.upper()}_{name.upper()} (1u << {bit})"
                )
            lines.append("")
        lines.append("/* How a task ended. */")
        lines += [f"#define {prefix}_STATUS_{s.name} {s.value}u" for s in self.status]
        lines.append("")
        if self.modes is not None:
            lines.append("/* Modes of this build. */")
            lines += [f"#define {prefix}_MODE_{name} {code}u" for name, code in self.modes.items()]
            lines.append("")
        lines.append("/* Bytes of the header's fields, from its address. */")
        at = 0
        for name, bits in self.header.items():
            lines.append(f"#define {prefix}_HEADER_{name.upper()} {at // 8}u  /* {bits} bits */")
            at += bits
        lines.append("")
        for name, (meaning, value) in self.constants.items():
            lines += [f"/* {meaning} */", f"#define {prefix}_{name} {value}u", ""]
        return "\n".join([*lines, "#endif", ""])

    def documentation(self) -> str:
        """The registers as a table in Markdown, with arrays as large as they can be."""
        lines = ["| offset | register | access | meaning |", "|---|---|---|---|"]
        for register in self.registers.registers:
            text = register.text + "".join(
                f"; bit {bit} `{name}`: {what}" for name, (bit, what) in register.fields.items()
            )
            first = self.registers.offset(register)
            offset = f"0x{first:02X}"
            if register.is_array:
                last = first + (ARRAY_LENGTH - 1) * register.stride
                offset += f" .. 0x{last:02X}, every {register.stride}"
            if register.bits == 64:
                text += " Low word, then high word."
            lines.append(f"| {offset} | `{register.name}` | {register.access.value} | {text} |")
        return "\n".join(lines) + "\n"

    def kernel_xml(self) -> str:
        """The kernel's description for Vitis."""
        root = xml.Element("root", versionMajor="1", versionMinor="6")
        kernel = xml.SubElement(
            root,
            "kernel",
            name=self.kernel,
            language="ip_c",
            vlnv=self.vlnv,
            attributes="",
            preferredWorkGroupSizeMultiple="0",
            workGroupSize="1",
            interrupt="true",
            hwControlProtocol="ap_ctrl_hs",
        )
        ports = xml.SubElement(kernel, "ports")
        _port(ports, CONTROL, "slave", f"0x{RANGE_BYTES:X}", 32)
        for port in self.ports:
            _port(ports, port, "master", "0xFFFFFFFFFFFFFFFF", self.sizes.word_bits)
        self._arguments(xml.SubElement(kernel, "args"))
        xml.indent(root)
        declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
        return declaration + xml.tostring(root, encoding="unicode") + "\n"

    def _arguments(self, args: xml.Element) -> None:
        for number, (register, name, offset) in enumerate(self.registers.arguments):
            size = f"0x{register.bits // 8:X}"
            # PYNQ knows few names of types, and "unsigned long" as one of 32 bits.
            scalar = "uint" if register.bits == 32 else "unsigned long long"
            port = self.port_of(register)
            xml.SubElement(
                args,
                "arg",
                name=name,
                addressQualifier="1" if port else "0",
                id=str(number),
                port=port or CONTROL,
                size=size,
                offset=f"0x{offset:X}",
                type="void*" if port else scalar,
                hostOffset="0x0",
                hostSize=size,
            )


def _port(parent: xml.Element, name: str, mode: str, size: str, bits: int) -> None:
    xml.SubElement(
        parent,
        "port",
        name=name,
        mode=mode,
        range=size,
        dataWidth=str(bits),
        portType="addressable",
        base="0x0",
    )
