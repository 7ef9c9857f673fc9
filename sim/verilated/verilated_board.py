"""A Verilated kernel with its memory, seen like a board: registers, memory, an interrupt."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from penstock.errors import DeviceError
from penstock.hw.checks import check_range

from .compile_kernel import load


@dataclass(frozen=True, kw_only=True)
class MemoryModel:
    """How the simulated memory behaves; by default it is as fast as a port can be.

    Parameters
    ----------
    latency_cycles : int
        Cycles from a request to its first word, and from a written burst to its answer.
    bandwidth : float
        Most words per cycle, port and direction, above 0 and up to 1.
    stalls : float
        Share of cycles in which a channel is held back at random, below 1. Above 0, bursts with
        different IDs overtake each other.
    seed : int
        Seed of the stalls.
    """

    latency_cycles: int = 0
    bandwidth: float = 1.0
    stalls: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("latency_cycles", "seed"):
            check_range(name, getattr(self, name), 0, (1 << 32) - 1)
        for name in ("bandwidth", "stalls"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise TypeError(f"{name} must be a number, not {value!r}")
        if not 0 < self.bandwidth <= 1:
            raise ValueError(f"bandwidth must be above 0 and at most 1, not {self.bandwidth!r}")
        if not 0 <= self.stalls < 1:
            raise ValueError(f"stalls must be 0 or more and below 1, not {self.stalls!r}")


@lru_cache(maxsize=64)
def _load(path: Path) -> ctypes.CDLL:
    library = load(path)
    handle, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    signatures = {
        "penstock_open": (handle, [u32, ctypes.c_double, ctypes.c_double, u64]),
        "penstock_close": (None, [handle]),
        "penstock_map": (None, [handle, u64, u64, ctypes.c_void_p, u64]),
        "penstock_unmap": (None, [handle]),
        "penstock_write": (ctypes.c_int, [handle, u32, u32]),
        "penstock_read": (ctypes.c_int, [handle, u32, ctypes.POINTER(u32)]),
        "penstock_wait": (ctypes.c_int, [handle, u64]),
        "penstock_hold": (None, [handle, ctypes.c_int, ctypes.c_int]),
        "penstock_cycles": (u64, [handle]),
        "penstock_words": (u64, [handle, ctypes.c_int, ctypes.c_int]),
        "penstock_violation": (ctypes.c_char_p, [handle]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Board:
    """One instance of a kernel; only one thread may use it at a time.

    Parameters
    ----------
    path : Path
        Shared library (:func:`penstock.sim.verilated.compile_kernel.library`).
    table : mapping
        The kernel's exported table.
    memory : MemoryModel
        How its memory behaves.
    """

    def __init__(self, path: Path, table: Mapping[str, Any], memory: MemoryModel) -> None:
        self._library = _load(path)
        self._registers = {entry["name"]: entry for entry in table["registers"]}
        self._ports = list(table["ports"])
        self._handle = self._library.penstock_open(
            memory.latency_cycles, memory.bandwidth, memory.stalls, memory.seed
        )
        self._mapped: list[np.ndarray] = []
        self.write("GIER", 1)
        self.write("IP_IER", self._bit("IP_IER", "done"))

    def close(self) -> None:
        """Free the instance."""
        if self._handle is not None:
            self._library.penstock_close(self._handle)
            self._handle = None

    def _bit(self, register: str, field: str) -> int:
        return 1 << self._registers[register]["fields"][field]

    def map(self, address: int, memory: np.ndarray, ports: Collection[str] | None = None) -> None:
        """Make an array of bytes memory from an address on.

        Parameters
        ----------
        address : int
        memory : ndarray of uint8
        ports : collection of str, optional
            Memory ports that reach it; by default all.
        """
        if memory.dtype != np.uint8 or not memory.flags.c_contiguous:
            raise TypeError(f"memory must be a contiguous array of bytes, not {memory.dtype}")
        self._mapped.append(memory)
        reached = sum(1 << k for k, p in enumerate(self._ports) if ports is None or p in ports)
        self._library.penstock_map(
            self._handle, address, memory.nbytes, memory.ctypes.data, reached
        )

    def map_faulty(self, address: int, size: int) -> None:
        """Map memory that answers every access with an error; goes before later mappings."""
        every = (1 << len(self._ports)) - 1
        self._library.penstock_map(self._handle, address, size, None, every)

    def unmap(self) -> None:
        """Take all memory away."""
        self._library.penstock_unmap(self._handle)
        self._mapped.clear()

    def write(self, name: str, value: int) -> None:
        """Write a register, both words of a pointer."""
        entry = self._registers[name]
        for word in range(entry["bits"] // 32):
            self.write_word(entry["offset"] + 4 * word, value >> 32 * word & 0xFFFFFFFF)

    def read(self, name: str) -> int:
        """Read a register, both words of a pointer."""
        entry, value = self._registers[name], 0
        for word in range(entry["bits"] // 32):
            value |= self.read_word(entry["offset"] + 4 * word) << 32 * word
        return value

    def write_word(self, offset: int, value: int) -> None:
        """Write 32 bits to an address of the register file."""
        if not self._library.penstock_write(self._handle, offset, value):
            raise DeviceError(f"the kernel does not take a value for its register at 0x{offset:X}")

    def read_word(self, offset: int) -> int:
        """32 bits at an address of the register file."""
        word = ctypes.c_uint32()
        if not self._library.penstock_read(self._handle, offset, ctypes.byref(word)):
            raise DeviceError(f"the kernel does not answer a read of its register at 0x{offset:X}")
        return word.value

    def run(self, arguments: Mapping[str, int], patience_cycles: int) -> int:
        """Run a task to its end.

        Parameters
        ----------
        arguments : mapping
            Values of the kernel's arguments.
        patience_cycles : int
            Cycles after which it counts as hung.

        Returns
        -------
        int
            Cycles from the start to the interrupt.

        Raises
        ------
        DeviceError
            It hangs, or breaks a rule of AXI.
        """
        began = self.start(arguments)
        ended = self.wait(patience_cycles)
        cycles = self.cycles - began
        if not ended:
            raise DeviceError(f"the kernel hangs after {cycles} cycles")
        return cycles

    @property
    def cycles(self) -> int:
        """Cycles since the instance was made."""
        return self._library.penstock_cycles(self._handle)

    def start(self, arguments: Mapping[str, int]) -> int:
        """Start a task with these arguments; gives the cycle of its start."""
        for name, value in arguments.items():
            self.write(name, value)
        began = self.cycles
        self.write("CTRL", self._bit("CTRL", "ap_start"))
        return began

    def wait(self, cycles: int) -> bool:
        """Run for some cycles, or fewer if the task ends; gives whether it has ended.

        Raises
        ------
        DeviceError
            The kernel broke a rule of AXI.
        """
        if not self.step(cycles):
            return False
        if not self.read("CTRL") & self._bit("CTRL", "ap_done"):
            raise DeviceError("the kernel interrupted without being done")
        return True

    def step(self, cycles: int) -> bool:
        """Run for some cycles, or until an interrupt, which is then acknowledged.

        Raises
        ------
        DeviceError
            The kernel broke a rule of AXI.
        """
        interrupted = self._library.penstock_wait(self._handle, cycles)
        if violation := self._library.penstock_violation(self._handle):
            raise DeviceError(f"the kernel broke a rule of AXI on {violation.decode()}")
        if interrupted:
            self.write("IP_ISR", self.read("IP_ISR"))
        return bool(interrupted)

    def hold(self, port: int, held: bool = True) -> None:
        """Stop a memory port from taking requests and words, or let it take them again."""
        self._library.penstock_hold(self._handle, port, held)

    def words(self, port: int, *, written: bool = False) -> int:
        """Words that have gone through a memory port since the instance was made."""
        return self._library.penstock_words(self._handle, port, written)
