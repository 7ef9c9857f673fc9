"""The files of a board's Linux that PYNQ reads and writes."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import DeviceError
from penstock.host.devices.board.link import DEPLOYED, FAULTS

from .bitfile import read_bin
from .machine import Machine

_FIRMWARE = "/lib/firmware/"
_MANAGER = "/sys/class/fpga_manager/fpga0/"


class Files:
    """A small file system; writing the FPGA manager's ``firmware`` loads a bitstream.

    Parameters
    ----------
    board : str
        Name of the board.
    is_64_bit : bool
        Whether its processor is an aarch64.
    deployed : Path, optional
        Folder behind ``/home/xilinx/penstock``.
    machine : Machine
        Loads bitstreams, and has the faults that can be read.
    """

    def __init__(
        self,
        board: str,
        is_64_bit: bool,
        deployed: Path | None,
        machine: Machine,
    ) -> None:
        kind = "aarch64" if is_64_bit else "armv7l"
        self._machine = machine
        self._deployed = deployed
        self._files = {
            "/proc/version": f"Linux version 6.6 (virtual) ({kind}-linux-gnu-gcc)\n".encode(),
            "/proc/device-tree/chosen/pynq_board": f"{board}\0".encode(),
            f"{_MANAGER}state": b"unknown\n",
            f"{_MANAGER}flags": b"0\n",
            f"{_MANAGER}firmware": b"",
        }

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return path in (FAULTS, *self._files) or self._on_disk(path) is not None

    def read(self, path: str) -> bytes:
        """A file's contents.

        Raises
        ------
        DeviceError
            There is none.
        """
        if path == FAULTS:
            return "\n".join(self._machine.reports).encode()
        if path in self._files:
            return self._files[path]
        if (found := self._on_disk(path)) is not None:
            return found.read_bytes()
        raise DeviceError(f"there is no file {path} on the board")

    def write(self, path: str, data: bytes) -> None:
        """Write a file.

        Raises
        ------
        DeviceError
            It names a bitstream that cannot be loaded.
        """
        self._files[path] = data
        if path == f"{_MANAGER}firmware":
            name = data.decode().strip()
            self._machine.configure(read_bin(self.read(_FIRMWARE + name)))
            self._files[f"{_MANAGER}state"] = b"operating\n"

    def _on_disk(self, path: str) -> Path | None:
        if self._deployed is None or not path.startswith(f"{DEPLOYED}/"):
            return None
        root = self._deployed.resolve()
        found = (root / path.removeprefix(f"{DEPLOYED}/")).resolve()
        return found if found.is_relative_to(root) and found.is_file() else None
