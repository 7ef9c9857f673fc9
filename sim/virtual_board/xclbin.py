"""Overlays of virtual Alveo cards: an xclbin with Verilog in place of a bitstream.

It has the sections that PYNQ reads, laid out by PYNQ's own structures. It was never tried with XRT.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as xml

from pynq._3rdparty import xclbin  # pyright: ignore

from penstock.constraints.boards import Board
from penstock.hw.kernel.description import Description
from penstock.hw.kernel.link import bank_tags

from .bitfile import Image, pack, unpack

_KINDS = xclbin.AXLF_SECTION_KIND
_MAGIC = b"xclbin2"
#: A line of ``link.cfg`` that connects a pointer of a kernel to some banks, the last two numbers.
_SP = re.compile(r"^sp=(\w+)\.(\w+):(\w+)\[(\d+)(?::(\d+))?\]$", re.MULTILINE)


def write_xclbin(
    description: Description, board: Board, image: Image, names: Sequence[str], link: str
) -> bytes:
    """Contents of an xclbin with some copies of a kernel.

    Parameters
    ----------
    description : Description
    board : Board
    image : Image
        Content of the card.
    names : sequence of str
        Names of the copies, in the order of ``image.bases``.
    link : str
        Text of ``link.cfg``, which the linker connects their pointers by.
    """
    kernel = _kernel(description)
    for name, base in zip(names, image.bases, strict=True):
        instance = xml.SubElement(kernel, "instance", name=name)
        xml.SubElement(instance, "addrRemap", base=f"0x{base:X}", port="S_AXI_CONTROL")
    project = xml.Element("project", name="penstock")
    core = xml.SubElement(xml.SubElement(xml.SubElement(project, "platform"), "device"), "core")
    core.append(kernel)
    reached = _reached(link)
    sections = {
        _KINDS.BITSTREAM: pack(image),
        _KINDS.EMBEDDED_METADATA: xml.tostring(project),
        _KINDS.MEM_TOPOLOGY: _topology(board, {bank for own in reached.values() for bank in own}),
        _KINDS.IP_LAYOUT: _layout(description, names, image.bases),
        _KINDS.CONNECTIVITY: _connections(kernel, names, reached),
    }
    return _container(sections)


def _kernel(description: Description) -> xml.Element:
    """The kernel as the linker embeds it: ports and arguments lie directly in it."""
    given = xml.fromstring(description.kernel_xml()).find("kernel")
    assert given is not None
    kernel = xml.Element("kernel", given.attrib)
    kernel.extend([*given.iter("port"), *given.iter("arg")])
    return kernel


def read_xclbin(data: bytes) -> Image:
    """The image in an xclbin.

    Raises
    ------
    DeviceError
        It was not made for a virtual card, or is damaged.
    """
    header = xclbin.axlf.from_buffer_copy(data)
    first = ctypes.sizeof(xclbin.axlf) - ctypes.sizeof(xclbin.axlf_section_header)
    size = ctypes.sizeof(xclbin.axlf_section_header)
    for number in range(header.m_header.m_numSections):
        entry = xclbin.axlf_section_header.from_buffer_copy(data, first + number * size)
        if entry.m_sectionKind == _KINDS.BITSTREAM:
            start = entry.m_sectionOffset
            return unpack(data[start : start + entry.m_sectionSize])
    return unpack(b"")


def _container(sections: dict[int, bytes]) -> bytes:
    size = ctypes.sizeof(xclbin.axlf_section_header)
    at = ctypes.sizeof(xclbin.axlf) + (len(sections) - 1) * size
    headers, bodies = b"", b""
    for kind, body in sections.items():
        headers += bytes(xclbin.axlf_section_header(kind, b"", at + len(bodies), len(body)))
        bodies += body + bytes(-len(body) % 8)
    whole = xclbin.axlf(m_magic=_MAGIC)
    whole.m_header.m_length = at + len(bodies)
    whole.m_header.m_numSections = len(sections)
    return bytes(whole)[:-size] + headers + bodies


def _array(count: int, items: Sequence[Any], whole: type) -> bytes:
    """A section that is a count and an array of one element or more."""
    start = whole(m_count=count)
    first = ctypes.sizeof(whole) - ctypes.sizeof(type(items[0]))
    return bytes(start)[:first] + b"".join(bytes(item) for item in items)


def _reached(link: str) -> dict[tuple[str, str], range]:
    """Banks of each pointer of each kernel, by the names of kernel and pointer."""
    return {
        (kernel, pointer): range(int(first), int(last or first) + 1)
        for kernel, pointer, _, first, last in _SP.findall(link)
    }


def _topology(board: Board, used: Collection[int]) -> bytes:
    """All banks of the card, and which of them the linker connected."""
    kind = xclbin.MEM_TYPE.MEM_HBM if board.memory == "HBM" else xclbin.MEM_TYPE.MEM_DDR4
    banks = []
    for number, tag in enumerate(bank_tags(board.memory, range(board.banks))):
        bank = xclbin.mem_data(m_type=kind, m_used=int(number in used), m_tag=tag.encode())
        bank.mem_u1.m_size = board.bank_mib << 10  # in KiB
        bank.mem_u2.m_base_address = number * (board.bank_mib << 20)
        banks.append(bank)
    return _array(len(banks), banks, xclbin.mem_topology)


def _layout(description: Description, names: Sequence[str], bases: Sequence[int]) -> bytes:
    items = []
    for name, base in zip(names, bases, strict=True):
        item = xclbin.ip_data(m_type=xclbin.IP_TYPE.IP_KERNEL, m_base_address=base)
        text = f"{description.kernel}:{name}".encode()
        ctypes.memmove(item.m_name, text, len(text))
        items.append(item)
    return _array(len(items), items, xclbin.ip_layout)


def _connections(
    kernel: xml.Element, names: Sequence[str], reached: Mapping[tuple[str, str], range]
) -> bytes:
    """Each pointer of each copy with each bank that it reaches."""
    items = [
        xclbin.connection(
            arg_index=int(argument.attrib["id"]), m_ip_layout_index=copy, mem_data_index=bank
        )
        for argument in kernel.findall("arg")
        for copy, name in enumerate(names)
        for bank in reached.get((name, argument.attrib["name"]), ())
    ]
    return _array(len(items), items, xclbin.connectivity)
