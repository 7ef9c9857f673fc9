"""Cases for the window kernel with stream ports; they run inside a simulator."""

from __future__ import annotations

from itertools import count
from random import Random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from penstock.hw.kernel.description import CONTROL
from penstock.hw.window import model
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.kernel.stream_kernel import INPUTS, OUTPUT, describe_stream
from penstock.hw.window.layout import Side, tuple_layout, word_layout

CONFIG = WindowConfig(depth=16, banks=2, tests=1, key_bits=8)

#: Cycles in which each register answers, and beyond which nothing of these cases takes.
PATIENCE_CYCLES = 20_000


class Bench:
    """The kernel between bus models, and a record of what went through its streams."""

    def __init__(self, dut, seed: int, pauses: float = 0.0) -> None:
        self.dut, self.rng = dut, Random(seed)
        described = describe_stream(CONFIG).table()
        self.registers = {entry["name"]: entry for entry in described["registers"]}
        wiring = {"reset": dut.ap_rst_n, "reset_active_level": False}
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, CONTROL), dut.ap_clk, **wiring)
        self.sources = {
            side: AxiStreamSource(
                AxiStreamBus.from_prefix(dut, name),
                dut.ap_clk,
                byte_lanes=len(getattr(dut, f"{name}_TDATA")) // 8,
                **wiring,
            )
            for side, name in INPUTS.items()
        }
        self.sink = AxiStreamSink(
            AxiStreamBus.from_prefix(dut, OUTPUT),
            dut.ap_clk,
            byte_lanes=len(getattr(dut, f"{OUTPUT}_TDATA")) // 8,
            **wiring,
        )
        self.taken: list[tuple[Side, dict]] = []
        self.results: list[tuple[int, int, Side]] = []
        if pauses:
            for part in (*self.sources.values(), self.sink):
                self._pause(part, pauses)
            for channel in (self.lite.write_if.aw_channel, self.lite.read_if.ar_channel):
                self._pause(channel, pauses)

    def _pause(self, part, pauses: float) -> None:
        own = Random(self.rng.random())
        part.set_pause_generator(own.random() < pauses for _ in count())

    async def reset(self) -> None:
        self.dut.ap_rst_n.value = 0
        cocotb.start_soon(Clock(self.dut.ap_clk, 10, "ns").start())
        await ClockCycles(self.dut.ap_clk, 5)
        self.dut.ap_rst_n.value = 1
        await RisingEdge(self.dut.ap_clk)
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        """Note each transfer, A's before B's in a cycle; what waits must not change."""
        waiting = None
        while True:
            await FallingEdge(self.dut.ap_clk)
            for side, name in INPUTS.items():
                if self._moves(name):
                    data = int(getattr(self.dut, f"{name}_TDATA").value)
                    self.taken.append((side, self._tuple(side, data)))
            offered = None
            if int(getattr(self.dut, f"{OUTPUT}_TVALID").value):
                offered = int(getattr(self.dut, f"{OUTPUT}_TDATA").value)
            assert waiting is None or offered == waiting, "a result changed before it was taken"
            waiting = offered
            if self._moves(OUTPUT):
                self.results += self._results(offered)
                waiting = None

    def _moves(self, name: str) -> bool:
        valid, ready = (getattr(self.dut, f"{name}_{s}").value for s in ("TVALID", "TREADY"))
        return bool(int(valid) and int(ready))

    @staticmethod
    def _tuple(side: Side, data: int) -> dict:
        item = tuple_layout(CONFIG, side).from_bits(data)
        return {
            "code": int(item.window[0]),
            "low": int(item.probe[0][0]),
            "high": int(item.probe[1][0]),
            "payload": int(item.payload),
        }

    @staticmethod
    def _results(data: int) -> list[tuple[int, int, Side]]:
        word = word_layout(CONFIG).from_bits(data & (1 << word_layout(CONFIG).size) - 1)
        return [
            (int(r.a), int(r.b), Side(r.later))
            for place, r in enumerate(word.results)
            if word.present >> place & 1
        ]

    async def write(self, name: str, value: int) -> None:
        entry = self.registers[name]
        await self.lite.write(entry["offset"], value.to_bytes(entry["bits"] // 8, "little"))

    async def read(self, name: str) -> int:
        entry = self.registers[name]
        value = 0
        for word in range(entry["bits"] // 32):
            answer = await self.lite.read(entry["offset"] + 4 * word, 4)
            value |= int.from_bytes(answer.data, "little") << 32 * word
        return value

    async def state(self) -> dict[str, bool]:
        value = await self.read("state")
        return {n: bool(value >> bit & 1) for n, bit in self.registers["state"]["fields"].items()}

    async def start(self, **arguments: int) -> None:
        # A pair joins where its only test is met.
        given = {"table_a_0": 2, "table_b_0": 2, "shed": 0, "stop": 0, **arguments}
        for name, value in given.items():
            await self.write(name, value)
        self.taken.clear()
        self.results.clear()
        await self.write("CTRL", 1)

    def send(self, side: Side, numbers: range, spread: int = 5) -> None:
        """Queue tuples at an input."""
        for number in numbers:
            code, low = self.rng.randrange(spread), self.rng.randrange(spread)
            value = code | low << 8 | (low + self.rng.randrange(3)) << 16 | number << 24
            self.sources[side].send_nowait(AxiStreamFrame(value.to_bytes(7, "little")))

    async def sent(self) -> None:
        for source in self.sources.values():
            await source.wait()

    async def until(self, name: str, field: str, value: bool = True) -> None:
        """Wait for a bit of a register, within a number of cycles."""
        for _ in range(PATIENCE_CYCLES // 20):
            if bool(await self.read(name) >> self.registers[name]["fields"][field] & 1) == value:
                return
            await ClockCycles(self.dut.ap_clk, 4)
        raise AssertionError(f"{name}.{field} did not become {value}")

    def wanted(self, rows_a: int, rows_b: int) -> list[tuple[int, int, Side]]:
        """What the tuples that were taken give."""

        def joins(a: dict, b: dict, later: Side) -> bool:
            own, other = (a, b) if later is Side.A else (b, a)
            return own["low"] <= other["code"] <= own["high"]

        pairs = model.join(self.taken, rows_a, rows_b, joins)
        return sorted((a["payload"], b["payload"], side.value) for a, b, side in pairs)

    def found(self) -> list[tuple[int, int, int]]:
        return sorted((a, b, side.value) for a, b, side in self.results)


async def _random_run(dut, seed: int, pauses: float) -> None:
    bench = Bench(dut, seed, pauses)
    await bench.reset()
    for rows_a, rows_b in ((5, 16), (16, 1)):
        await bench.start(rows_a=rows_a, rows_b=rows_b)
        bench.send(Side.A, range(60))
        bench.send(Side.B, range(100, 150))
        await bench.sent()
        await bench.write("stop", 1)
        await bench.until("CTRL", "ap_done")
        assert len(bench.taken) == 110
        assert bench.found() == bench.wanted(rows_a, rows_b)
        assert len(bench.found()) > 100
        counts = {n: await bench.read(n) for n in ("admitted_a", "admitted_b", "results", "cycles")}
        assert counts["admitted_a"] == 60
        assert counts["admitted_b"] == 50
        assert counts["results"] == len(bench.results)
        assert 110 < counts["cycles"] < PATIENCE_CYCLES
        assert (await bench.read("shed_a"), await bench.read("shed_b")) == (0, 0)


@cocotb.test()
async def random_streams(dut) -> None:
    await _random_run(dut, 1, 0.0)


@cocotb.test()
async def random_streams_with_pauses(dut) -> None:
    await _random_run(dut, 2, 0.6)


@cocotb.test()
async def nothing_is_taken_before_the_start_or_after_the_stop(dut) -> None:
    bench = Bench(dut, 3)
    await bench.reset()
    bench.send(Side.A, range(3))
    await ClockCycles(dut.ap_clk, 50)
    assert bench.taken == []
    await bench.start(rows_a=4, rows_b=4)
    await bench.sent()
    await bench.write("stop", 1)
    await bench.until("CTRL", "ap_done")
    bench.send(Side.A, range(3, 6))
    await ClockCycles(dut.ap_clk, 50)
    assert len(bench.taken) == 3
    await bench.start(rows_a=4, rows_b=4)
    await bench.sent()
    assert [item["payload"] for _, item in bench.taken] == [3, 4, 5]


@cocotb.test()
async def an_output_that_is_never_ready(dut) -> None:
    """The operator waits, and its register says so; nothing is lost when the output goes on."""
    bench = Bench(dut, 4)
    await bench.reset()
    bench.sink.pause = True
    await bench.start(rows_a=16, rows_b=16)
    bench.send(Side.A, range(80), spread=1)
    bench.send(Side.B, range(100, 180), spread=1)
    await bench.until("state", "output_stalled")
    await ClockCycles(dut.ap_clk, 1000)
    before = await bench.read("output_waits")
    state = await bench.state()
    assert state["output_stalled"]
    assert state["wait_a"] or state["wait_b"]
    assert not state["idle"]
    await ClockCycles(dut.ap_clk, 500)
    assert await bench.read("output_waits") >= before + 500
    assert len(bench.taken) < 160
    bench.sink.pause = False
    await bench.sent()
    await bench.write("stop", 1)
    await bench.until("CTRL", "ap_done")
    assert bench.found() == bench.wanted(16, 16)
    assert (await bench.state())["idle"]


@cocotb.test()
async def shedding(dut) -> None:
    """Inputs never wait; what is dropped is counted, and what was admitted is matched."""
    bench = Bench(dut, 5)
    await bench.reset()
    await bench.start(rows_a=16, rows_b=16, shed=1)
    bench.send(Side.A, range(200), spread=1)
    bench.send(Side.B, range(300, 500), spread=1)
    await bench.sent()
    await bench.write("stop", 1)
    await bench.until("CTRL", "ap_done")
    counts = {
        name: await bench.read(name) for name in ("admitted_a", "shed_a", "admitted_b", "shed_b")
    }
    assert counts["admitted_a"] + counts["shed_a"] == 200
    assert counts["admitted_b"] + counts["shed_b"] == 200
    assert counts["shed_a"] > 20
    assert await bench.read("results") == len(bench.results) == len(set(bench.found()))


@cocotb.test()
async def windows_larger_than_the_queues(dut) -> None:
    bench = Bench(dut, 6)
    await bench.reset()
    await bench.start(rows_a=0xFFFFFFFF, rows_b=32)
    bench.send(Side.A, range(60))
    bench.send(Side.B, range(100, 160))
    await bench.sent()
    await bench.write("stop", 1)
    await bench.until("CTRL", "ap_done")
    assert bench.found() == bench.wanted(16, 16)
