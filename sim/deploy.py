"""Packages and deploy folders: an overlay with the description of its kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from penstock.constraints.boards import Board, ToolFlow
from penstock.constraints.boards import board as find_board
from penstock.errors import FileError, UsageError
from penstock.host.device.programs import program_header
from penstock.host.devices.board.link import INDEX
from penstock.host.devices.board.package import DESCRIPTION, Package
from penstock.hw.board.placement import clock_of
from penstock.hw.kernel.description import Description
from penstock.hw.kernel.link import bank_tags, compute_units, port_banks

from .builds import Build


def write_package(
    build: Build,
    board: str,
    out: Path,
    files: Mapping[str, bytes],
    *,
    kernels: int,
    clock_mhz: int | None = None,
) -> Package:
    """Write a package.

    Parameters
    ----------
    build : Build
        The kernels.
    board : str
    out : Path
        Made if it is not there.
    files : mapping of str to bytes
        By suffix, first the overlay. Their names have the hash of all of them, since PYNQ does not
        send a file whose name it has sent before.
    kernels : int
        Copies of the kernel in the overlay.
    clock_mhz : int, optional
        Clock that the overlay was built for, if it is not the board's.
    """
    suffix = next(iter(files))
    content = hashlib.sha256()
    for data in files.values():
        content.update(hashlib.sha256(data).digest())
    stem = f"penstock_{content.hexdigest()[:16]}"
    entry = find_board(board, clock_mhz)
    package = Package(
        board=board,
        clock_mhz=clock_of(entry),
        overlay=stem + suffix,
        instances=compute_units(kernels, build.description.kernel),
        banks=_banks(build.description, entry, kernels),
        table=build.description.table(),
        program=None if build.program is None else program_header(build.program),
        operator=build.operator.value,
        folder=out.resolve(),
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        for ending, data in files.items():
            (out / (stem + ending)).write_bytes(data)
        (out / DESCRIPTION).write_text(package.describe(), encoding="utf-8")
    except OSError as error:
        raise FileError(f"{out} cannot be written: {error.strerror}") from error
    return package


def _banks(description: Description, board: Board, kernels: int) -> list[dict[str, list[str]]]:
    """What the ports of each kernel reach; a processing system's memory is one to PYNQ."""
    if board.flow is not ToolFlow.VITIS:
        return []
    dealt = port_banks(kernels, tuple(description.ports), description.shared, board.banks)
    return [
        {port: bank_tags(board.memory, dealt[number, port]) for port in description.ports}
        for number in range(kernels)
    ]


def made_package(
    build: Build,
    board: str,
    out: Path,
    overlay: Path,
    *,
    kernels: int,
    clock_mhz: int | None = None,
) -> Package:
    """A package of an overlay that the vendor's tools made from the kernel's export.

    Arguments are those of :func:`write_package`.

    Raises
    ------
    UsageError
        The overlay is not of the board's kind.
    FileError
        A file cannot be read or written.
    """
    suffix = ".xclbin" if find_board(board).flow is ToolFlow.VITIS else ".bit"
    if overlay.suffix != suffix:
        raise UsageError(f"{board} takes a {suffix} file, not {overlay.name}")
    endings = [suffix] if suffix == ".xclbin" else [suffix, ".hwh"]
    try:
        files = {ending: overlay.with_suffix(ending).read_bytes() for ending in endings}
    except OSError as error:
        raise FileError(f"{error.filename} cannot be read: {error.strerror}") from error
    return write_package(build, board, out, files, kernels=kernels, clock_mhz=clock_mhz)


def deploy(packages: Iterable[Package], folder: Path) -> None:
    """Write a deploy folder, to be copied to a board so that it has the packages."""
    names = []
    for number, package in enumerate(packages):
        assert package.folder is not None
        names.append(f"{number}-{package.overlay.partition('.')[0]}")
        own = folder / names[-1]
        own.mkdir(parents=True, exist_ok=True)
        for name in (DESCRIPTION, *package.files):
            (own / name).write_bytes((package.folder / name).read_bytes())
    (folder / INDEX).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
