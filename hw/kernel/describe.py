"""What the host needs to know of a kernel, generated: table, C header, documentation, kernel.xml.

The table is all that host software reads; it never imports the hardware's sources.
"""

from __future__ import annotations

import inspect
from typing import Any
from xml.etree import ElementTree as xml

from amaranth.lib import data

from penstock.hw.join.modes import CODES
from penstock.hw.kernel.config import LANES, RECORD_BITS, WORD_BYTES, KernelConfig
from penstock.hw.kernel.kernel import CONTROL, KERNEL, PORTS
from penstock.hw.kernel.layout import (
    HEADER,
    PASS_SLOTS,
    Status,
    tuple_slots,
    value_slots,
    window_slots,
)
from penstock.hw.kernel.registers import (
    RANGE_BYTES,
    REGISTERS,
    Register,
    arguments,
    instances,
)

#: Vendor, library, and version in the kernel's identifier.
_VENDOR, _LIBRARY, _VERSION = "penstock", "join", "1.0"


def table(config: KernelConfig) -> dict[str, Any]:
    """Registers, memory layout and geometry of a build, as values that JSON can hold."""
    join = config.join
    geometry: dict[str, Any] = {
        "pipelines": config.pipelines,
        "units": join.units,
        "blocks": join.blocks,
        "units_per_block": join.units_per_block,
        "tests": join.tests,
        "key_bits": join.key_bits if join.is_band else 0,
        "stream_key_bits": _stream_widths(config),
        "window_key_bits": _window_widths(config),
        "ordinal_bits": join.ordinal_bits,
        "lanes": LANES,
        "record_bits": RECORD_BITS,
        "word_bytes": WORD_BYTES,
        "pass_slot_bits": PASS_SLOTS.bits,
        "tuple_slot_bits": tuple_slots(join).bits,
        "window_slot_bits": window_slots(join).bits,
        "least_result_words": config.least_result_words,
        "window_value_bits": join.value_bits,
        "operand_bits": join.operand_bits,
        "value_slot_bits": value_slots(join).bits if join.folding else 0,
        "value_fields": _fields(join.folding.layout) if join.folding else {},
    }
    return {
        "kernel": KERNEL,
        "geometry": geometry,
        "registers": [entry for register in REGISTERS for entry in _entries(register, config)],
        "ports": dict(PORTS),
        "status": {status.name: status.value for status in Status},
        "modes": {mode.value: CODES[mode] for mode in CODES if mode in join.modes},
        "header": dict(HEADER),
    }


def _fields(layout: data.StructLayout) -> dict[str, int]:
    """Widths of a layout's fields, from bit 0 on."""
    return {str(name): field.width for name, field in layout}


def _stream_widths(config: KernelConfig) -> list[int]:
    join = config.join
    if join.program is None:
        return [join.key_bits] * (2 * join.tests)
    return [dtype.bits for dtype in join.program.stream]


def _window_widths(config: KernelConfig) -> list[int]:
    join = config.join
    if join.program is None:
        return [join.key_bits] * join.tests
    return [dtype.bits for dtype in join.program.window]


def _text(register: type[Register]) -> str:
    return inspect.cleandoc(register.__doc__ or "")


def _entries(register: type[Register], config: KernelConfig) -> list[dict[str, Any]]:
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
        for name, offset in instances(register, config.table_words)
    ]


def c_header(config: KernelConfig) -> str:
    """Registers, status codes and header fields as C constants."""
    lines = [f"/* {KERNEL}: generated, do not edit. */", "#ifndef PENSTOCK_KERNEL_H"]
    lines += ["#define PENSTOCK_KERNEL_H", ""]
    for register in REGISTERS:
        lines += [f"/* {line} */" for line in _text(register).splitlines()]
        for name, offset in instances(register, config.table_words):
            lines.append(f"#define PENSTOCK_{name.upper()} 0x{offset:02X}u")
        for name, (bit, _) in register.fields.items():
            lines.append(f"#define PENSTOCK_{register.name}_{name.upper()} (1u << {bit})")
        lines.append("")
    lines.append("/* How a task ended. */")
    lines += [f"#define PENSTOCK_STATUS_{status.name} {status.value}u" for status in Status]
    lines += ["", "/* Modes of this build. */"]
    modes = [mode for mode in CODES if mode in config.join.modes]
    lines += [f"#define PENSTOCK_MODE_{mode.name} {CODES[mode]}u" for mode in modes]
    lines += ["", "/* Bytes of the header's fields, from its address. */"]
    at = 0
    for name, bits in HEADER.items():
        lines.append(f"#define PENSTOCK_HEADER_{name.upper()} {at // 8}u  /* {bits} bits */")
        at += bits
    lines += ["", "/* Smallest value of result_words. */"]
    lines.append(f"#define PENSTOCK_LEAST_RESULT_WORDS {config.least_result_words}u")
    lines += ["", "#endif", ""]
    return "\n".join(lines)


def documentation() -> str:
    """The registers as a table in Markdown, for the largest truth table."""
    lines = ["| offset | register | access | meaning |", "|---|---|---|---|"]
    for register in REGISTERS:
        text = _text(register).replace("\n", " ")
        text += "".join(f"; bit {bit} `{f}`: {what}" for f, (bit, what) in register.fields.items())
        offset = f"0x{register.offset:02X}"
        if register.stride:
            last = register.offset + 7 * register.stride
            offset += f" .. 0x{last:02X}, every {register.stride}"
        if register.bits == 64:
            text += " Low word, then high word."
        lines.append(f"| {offset} | `{register.name}` | {register.access.value} | {text} |")
    return "\n".join(lines) + "\n"


def kernel_xml(config: KernelConfig) -> str:
    """The kernel's description for Vitis."""
    root = xml.Element("root", versionMajor="1", versionMinor="6")
    kernel = xml.SubElement(
        root,
        "kernel",
        name=KERNEL,
        language="ip_c",
        vlnv=f"{_VENDOR}:{_LIBRARY}:{KERNEL}:{_VERSION}",
        attributes="",
        preferredWorkGroupSizeMultiple="0",
        workGroupSize="1",
        interrupt="true",
        hwControlProtocol="ap_ctrl_hs",
    )
    ports = xml.SubElement(kernel, "ports")
    _port(ports, CONTROL, "slave", f"0x{RANGE_BYTES:X}", 32)
    for port in PORTS:
        _port(ports, port, "master", "0xFFFFFFFFFFFFFFFF", 8 * WORD_BYTES)
    args = xml.SubElement(kernel, "args")
    for number, (register, name, offset) in enumerate(arguments(config.table_words)):
        size = register.bits // 8
        xml.SubElement(
            args,
            "arg",
            name=name,
            addressQualifier="1" if register.port else "0",
            id=str(number),
            port=register.port or CONTROL,
            size=f"0x{size:X}",
            offset=f"0x{offset:X}",
            type="void*" if register.port else "uint",
            hostOffset="0x0",
            hostSize=f"0x{size:X}",
        )
    xml.indent(root)
    declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return declaration + xml.tostring(root, encoding="unicode") + "\n"


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
