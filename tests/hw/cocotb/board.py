"""A kernel in a simulation, between bus models that know nothing of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave

from penstock.host.devices.kernel.packing import Packing, header_fields
from penstock.hw.join.kernel.describe import table
from penstock.hw.kernel.description import CONTROL
from penstock.hw.kernel.writer import BURSTS_OUT
from penstock.passes import recover
from tests.hw.cocotb.builds import BUILDS, Task
from tests.hw.cocotb.monitor import Monitor
from tests.hw.cocotb.names import BUILD_VARIABLE, REPORT_VARIABLE

#: Cycles after which a task counts as hung; none comes near.
PATIENCE_CYCLES = 50_000

#: Places of a task's memory: beyond 32 bits, far apart, none at the start of a burst.
PASSES, TUPLES, WINDOW, RESULTS = (
    (part << 40) + 64 * words for part, words in ((1, 61), (2, 63), (3, 3), (4, 58))
)


class Memory:
    """What the bus models read and write; an access outside is an error."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, np.ndarray]] = []
        self._faulty: list[tuple[int, int]] = []

    def put(self, address: int, content: np.ndarray) -> None:
        """Make an array of bytes part of the memory."""
        self._parts.append((address, content))

    def spoil(self, address: int, size: int) -> None:
        """Let every access to an area fail."""
        self._faulty.append((address, address + size))

    def replace(self, address: int, content: np.ndarray) -> None:
        """Put other bytes where an array begins."""
        self._find(address, len(content))[:] = content

    def clear(self) -> None:
        """Take everything away."""
        self._parts.clear()
        self._faulty.clear()

    def _find(self, address: int, size: int) -> np.ndarray:
        if not any(low <= address < high for low, high in self._faulty):
            for start, content in self._parts:
                if start <= address and address + size <= start + len(content):
                    return content[address - start : address - start + size]
        raise LookupError(f"no memory at {address:#x}")

    async def read(self, address: int, length: int) -> bytes:
        return self._find(address, length).tobytes()

    async def write(self, address: int, data: bytes) -> None:
        self._find(address, len(data))[:] = np.frombuffer(data, np.uint8)


class Board:
    """A kernel with its memory, registers and monitor.

    Parameters
    ----------
    dut
        The kernel in the simulator.
    rng : Random
        Seeds all pauses.
    pauses : float
        Share of cycles in which a channel of the bus models rests.
    """

    def __init__(self, dut, rng: Random, pauses: float = 0.0) -> None:
        self.dut = dut
        self.build = BUILDS[os.environ[BUILD_VARIABLE]]()
        self.described = table(self.build.config)
        self.registers = {entry["name"]: entry for entry in self.described["registers"]}
        self.status = {value: name for name, value in self.described["status"].items()}
        self.least_words = self.described["geometry"]["least_result_words"]
        self._keys = 2 if not self.build.config.join.is_band else self.build.config.join.tests
        self.packing = Packing(self.described, window_keys=self._keys)
        self.memory = Memory()
        self.violations: list[str] = []
        ports = list(self.described["ports"])
        wiring = {"reset": dut.ap_rst_n, "reset_active_level": False}
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, CONTROL), dut.ap_clk, **wiring)
        slaves = [
            AxiSlave(AxiBus.from_prefix(dut, port), dut.ap_clk, target=self.memory, **wiring)
            for port in ports
        ]
        self.monitor = Monitor(
            dut,
            CONTROL,
            ports,
            word_bytes=self.packing.word_bytes,
            most_words=self.build.config.read_words,
            most_bursts=BURSTS_OUT,
            report=self._report,
        )
        if pauses:
            for model in (self.lite, *slaves):
                for name in ("aw_channel", "w_channel", "b_channel"):
                    self._pause(getattr(model.write_if, name), rng, pauses)
                for name in ("ar_channel", "r_channel"):
                    self._pause(getattr(model.read_if, name), rng, pauses)

    @staticmethod
    def _pause(channel, rng: Random, pauses: float) -> None:
        own = Random(rng.random())
        channel.set_pause_generator(own.random() < pauses for _ in count())

    def _report(self, violation: str) -> None:
        if violation not in self.violations:
            self.violations.append(violation)
            with Path(os.environ[REPORT_VARIABLE]).open("a", encoding="utf-8") as file:
                file.write(violation + "\n")

    async def reset(self) -> None:
        """Start the clock and the monitor, and bring the kernel up."""
        self.dut.ap_rst_n.value = 0
        cocotb.start_soon(Clock(self.dut.ap_clk, 10, "ns").start())
        cocotb.start_soon(self.monitor.run())
        await ClockCycles(self.dut.ap_clk, 6)
        self.dut.ap_rst_n.value = 1
        await ClockCycles(self.dut.ap_clk, 2)

    def finish(self) -> None:
        """Fail if a rule was broken."""
        self.monitor.finish()
        assert not self.violations, "; ".join(self.violations)

    async def write(self, name: str, value: int) -> None:
        """Write a register, both words of a pointer."""
        entry = self.registers[name]
        await self.lite.write(entry["offset"], value.to_bytes(entry["bits"] // 8, "little"))

    async def read(self, name: str) -> int:
        """Read a register."""
        entry = self.registers[name]
        answer = await self.lite.read(entry["offset"], entry["bits"] // 8)
        return int.from_bytes(answer.data, "little")

    def bit(self, register: str, field: str) -> int:
        """A bit's value, by its name."""
        return 1 << self.registers[register]["fields"][field]

    async def start(self, arguments: Mapping[str, int]) -> None:
        """Write arguments, let the interrupt tell of the end, and start."""
        for name, value in arguments.items():
            await self.write(name, value)
        await self.write("GIER", self.bit("GIER", "enable"))
        await self.write("IP_IER", self.bit("IP_IER", "done"))
        await self.write("CTRL", self.bit("CTRL", "ap_start"))

    async def end(self) -> str:
        """Wait for the interrupt and acknowledge it; returns the status register, by name."""
        edge = RisingEdge(self.dut.ap_clk)
        for _ in range(PATIENCE_CYCLES):
            await edge
            if int(self.dut.interrupt.value):
                break
        else:
            raise AssertionError("the kernel hangs")
        await self.write("IP_ISR", await self.read("IP_ISR"))
        assert int(self.dut.interrupt.value) == 0
        assert await self.read("CTRL") & self.bit("CTRL", "ap_done")
        return self.status[await self.read("status")]

    async def run(self, arguments: Mapping[str, int]) -> str:
        """Run a task from start to end; returns its status."""
        await self.start(arguments)
        return await self.end()

    def load(self, task: Task, result_words: int) -> dict[str, int]:
        """Put a task into memory; returns its arguments."""
        join, packing = self.build.config.join, self.packing
        passes = join.plan(task.start, task.end)
        begin, end = (np.array([getattr(p, name) for p in passes]) for name in ("begin", "end"))
        counts = np.array([p.stop - p.first for p in passes])
        window = np.zeros(packing.window_bytes(len(task.window[0])), np.uint8)
        rows = packing.window(task.window).reshape(-1)
        window[: len(rows)] = rows
        self.results = np.zeros(packing.header_bytes + result_words * packing.word_bytes, np.uint8)
        self.memory.clear()
        self.memory.put(PASSES, packing.passes(counts, begin, end))
        self.memory.put(TUPLES, packing.tuples(task.stream, task.start, task.end))
        self.memory.put(WINDOW, window)
        self.memory.put(RESULTS, self.results)
        entries = {"table_0": task.table} if join.is_band else {}
        return {
            "passes": PASSES,
            "tuples": TUPLES,
            "window": WINDOW,
            "results": RESULTS,
            "pass_count": len(passes),
            "tuple_count": len(task.start),
            "window_count": len(task.window[0]),
            "result_words": result_words,
            **entries,
        }

    def found(self, task: Task) -> tuple[dict[str, Any], np.ndarray]:
        """The header and the pairs that lie in memory, one a row, in the order of memory."""
        join, size = self.build.config.join, self.packing.header_bytes
        header = header_fields(self.described, self.results[:size])
        header["status"] = self.status[header["status"]]
        records = self.packing.records(
            self.results[size : size + header["words"] * self.packing.word_bytes]
        )
        passes = join.plan(task.start, task.end)
        pairs = recover(passes, task.start, join.units, records.unit, records.ordinal)
        return header, np.stack(pairs, axis=1)
