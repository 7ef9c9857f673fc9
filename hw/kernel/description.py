"""Descriptions of a kernel for host software and tools: table, C header, kernel.xml, document.

The table is all that host software reads; it never imports the hardware's sources.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar
from xml.etree import ElementTree as xml

from .config import WORD_BYTES
from .registers import RANGE_BYTES, Register, RegisterMap

#: The register file's port.
CONTROL = "s_axi_control"

#: Registers of an array in the largest build, for the document.
_MOST_INSTANCES = 8


@dataclass(frozen=True)
class StreamPort:
    """An AXI4-Stream port.

    Parameters
    ----------
    carries : str
        What goes through it.
    data_bits : int
        Width of TDATA.
    is_input : bool
        Whether the kernel takes what comes.
    fields : mapping of str to int
        Widths of what TDATA holds, from bit 0 on.
    """

    carries: str
    data_bits: int
    is_input: bool
    fields: Mapping[str, int]


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
    ports : mapping of str to str
        Memory ports and what they carry.
    shared : tuple of str
        Memory ports whose buffers all kernels of a card read.
    streams : mapping of str to StreamPort
        AXI4-Stream ports.
    status : type of IntEnum, or None
        How a task may end.
    header : mapping of str to int
        Fields of the result header and their widths, from bit 0 on.
    geometry : mapping
        Sizes of the build.
    modes : mapping of str to int, or None
        Modes of the build by their C names, with their codes; None where there are no modes.
    constants : mapping of str to (str, int)
        Further C constants, with what they mean.
    """

    kernel: str
    library: str
    prefix: str
    registers: RegisterMap
    ports: Mapping[str, str] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    streams: Mapping[str, StreamPort] = field(default_factory=dict)
    status: type[IntEnum] | None = None
    header: Mapping[str, int] = field(default_factory=dict)
    geometry: Mapping[str, Any] = field(default_factory=dict)
    modes: Mapping[str, int] | None = None
    constants: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    #: In the kernel's identifier.
    vendor: ClassVar[str] = "penstock"
    version: ClassVar[str] = "1.0"

    @property
    def vlnv(self) -> str:
        """Vendor, library, name and version, by which tools know the kernel."""
        return f"{self.vendor}:{self.library}:{self.kernel}:{self.version}"

    def table(self) -> dict[str, Any]:
        """Registers, memory layout and geometry, as values that JSON can hold."""
        described: dict[str, Any] = {
            "kernel": self.kernel,
            "geometry": dict(self.geometry),
            "registers": [
                e for register in self.registers.registers for e in self._table(register)
            ],
            "ports": dict(self.ports),
        }
        if self.streams:
            described["streams"] = {
                name: {
                    "direction": "in" if port.is_input else "out",
                    "data_bits": port.data_bits,
                    "fields": dict(port.fields),
                }
                for name, port in self.streams.items()
            }
        if self.status is not None:
            described["status"] = {status.name: status.value for status in self.status}
        if self.modes is not None:
            described["modes"] = {name.lower(): code for name, code in self.modes.items()}
        if self.header:
            described["header"] = dict(self.header)
        return described

    def _table(self, register: type[Register]) -> list[dict[str, Any]]:
        entry: dict[str, Any] = {
            "bits": register.bits,
            "access": register.access.value,
            "text": _text(register),
        }
        if register.port:
            entry["port"] = register.port
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
            lines += [f"/* {line} */" for line in _text(register).splitlines()]
            for name, offset in self.registers.instances(register):
                lines.append(f"#define {prefix}_{name.upper()} 0x{offset:02X}u")
            for name, (bit, _) in register.fields.items():
                lines.append(
                    f"#define {prefix}_{register.name.upper()}_{name.upper()} (1u << {bit})"
                )
            lines.append("")
        if self.status is not None:
            lines.append("/* How a task ended. */")
            lines += [f"#define {prefix}_STATUS_{s.name} {s.value}u" for s in self.status]
            lines.append("")
        if self.modes is not None:
            lines.append("/* Modes of this build. */")
            lines += [f"#define {prefix}_MODE_{name} {code}u" for name, code in self.modes.items()]
            lines.append("")
        if self.header:
            lines.append("/* Bytes of the header's fields, from its address. */")
            at = 0
            for name, bits in self.header.items():
                lines.append(
                    f"#define {prefix}_HEADER_{name.upper()} {at // 8}u  /* {bits} bits */"
                )
                at += bits
            lines.append("")
        for name, (meaning, value) in self.constants.items():
            lines += [f"/* {meaning} */", f"#define {prefix}_{name} {value}u", ""]
        return "\n".join([*lines, "#endif", ""])

    def documentation(self) -> str:
        """The registers as a table in Markdown, with arrays as large as they can be."""
        lines = ["| offset | register | access | meaning |", "|---|---|---|---|"]
        for register in self.registers.registers:
            text = _text(register).replace("\n", " ")
            text += "".join(
                f"; bit {bit} `{name}`: {what}" for name, (bit, what) in register.fields.items()
            )
            offset = f"0x{register.offset:02X}"
            if register.stride:
                last = register.offset + (_MOST_INSTANCES - 1) * register.stride
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
            _port(ports, port, "master", "0xFFFFFFFFFFFFFFFF", 8 * WORD_BYTES)
        for name, stream in self.streams.items():
            xml.SubElement(
                ports,
                "port",
                name=name,
                mode="read_only" if stream.is_input else "write_only",
                dataWidth=str(stream.data_bits),
                portType="stream",
            )
        self._arguments(xml.SubElement(kernel, "args"))
        xml.indent(root)
        declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
        return declaration + xml.tostring(root, encoding="unicode") + "\n"

    def _arguments(self, args: xml.Element) -> None:
        number = 0
        for register, name, offset in self.registers.arguments:
            size = f"0x{register.bits // 8:X}"
            # PYNQ knows few names of types, and "unsigned long" as one of 32 bits.
            scalar = "uint" if register.bits == 32 else "unsigned long long"
            xml.SubElement(
                args,
                "arg",
                name=name,
                addressQualifier="1" if register.port else "0",
                id=str(number),
                port=register.port or CONTROL,
                size=size,
                offset=f"0x{offset:X}",
                type="void*" if register.port else scalar,
                hostOffset="0x0",
                hostSize=size,
            )
            number += 1
        for name, stream in self.streams.items():
            xml.SubElement(
                args,
                "arg",
                name=name,
                addressQualifier="4",
                id=str(number),
                port=name,
                size="0x4",
                offset="0x0",
                type=f"stream<ap_axiu<{stream.data_bits},0,0,0>>",
                hostOffset="0x0",
                hostSize="0x4",
            )
            number += 1


def _text(register: type[Register]) -> str:
    return inspect.cleandoc(register.__doc__ or "")


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
