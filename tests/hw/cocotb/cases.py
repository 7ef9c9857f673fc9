"""What runs inside the simulator: the kernel's registers, tasks, pauses and errors."""

from __future__ import annotations

from collections import Counter
from random import Random

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from penstock.host.devices.kernel.packing import header_fields
from tests.hw.cocotb.board import PASSES, RESULTS, TUPLES, WINDOW, Board
from tests.hw.cocotb.builds import Task

#: Room in which no task here pauses.
ROOMY = 600


async def board(dut, seed: int, pauses: float) -> Board:
    """A kernel after its reset."""
    made = Board(dut, Random(seed), pauses)
    await made.reset()
    return made


async def check(kernel: Board, task: Task) -> None:
    """Run a task in one go and compare it with brute force."""
    assert await kernel.run(kernel.load(task, ROOMY)) == "OK"
    header, pairs = kernel.found(task)
    assert header["status"] == "OK"
    assert header["complete"] == len(task.start)
    expected = kernel.build.expected(task)
    assert np.array_equal(ordered(pairs), expected), f"{len(pairs)} pairs, not {len(expected)}"


def ordered(pairs: np.ndarray) -> np.ndarray:
    """Pairs sorted by tuple, then position."""
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


@cocotb.test()
async def registers(dut):
    """Every argument keeps what is written, byte by byte; nothing else is written."""
    rng = Random(1)
    kernel = await board(dut, 1, 0.4)
    arguments = [e for e in kernel.registers.values() if e["access"] == "argument"]
    kept = {entry["name"]: rng.getrandbits(entry["bits"]) for entry in arguments}
    for name, value in kept.items():
        await kernel.write(name, value)
    for entry in arguments:
        name, first = entry["name"], rng.randrange(entry["bits"] // 8)
        data = bytes(rng.randrange(256) for _ in range(rng.randint(1, entry["bits"] // 8 - first)))
        answer = await kernel.lite.write(entry["offset"] + first, data)
        assert answer.resp == AxiResp.OKAY
        old = kept[name].to_bytes(entry["bits"] // 8, "little")
        changed = old[:first] + data + old[first + len(data) :]
        kept[name] = int.from_bytes(changed, "little")
    for name, value in kept.items():
        assert await kernel.read(name) == value, name
    kernel.finish()


@cocotb.test()
async def addresses_without_a_register(dut):
    """They read 0, ignore writes, and answer; so does the status, which only hardware sets."""
    kernel = await board(dut, 2, 0.3)
    taken = {
        entry["offset"] + 4 * word
        for entry in kernel.registers.values()
        for word in range(entry["bits"] // 32)
    }
    free = [offset for offset in range(0, 0x100, 4) if offset not in taken] + [0x7FC, 0xFFC]
    assert free
    for offset in (*free, kernel.registers["status"]["offset"]):
        assert (await kernel.lite.write(offset, b"\xff" * 4)).resp == AxiResp.OKAY
        answer = await kernel.lite.read(offset, 4)
        assert (answer.resp, bytes(answer.data)) == (AxiResp.OKAY, bytes(4)), hex(offset)
    assert await kernel.read("CTRL") == kernel.bit("CTRL", "ap_idle")
    kernel.finish()


@cocotb.test()
async def control_and_interrupt(dut):
    """The ap_ctrl_hs handshake, and the interrupt with its enables."""
    kernel = await board(dut, 3, 0.0)
    done, idle, ready = (kernel.bit("CTRL", f"ap_{name}") for name in ("done", "idle", "ready"))
    arguments = kernel.load(kernel.build.dense_task(1, 1), ROOMY)
    for name, value in arguments.items():
        await kernel.write(name, value)
    await kernel.write("CTRL", kernel.bit("CTRL", "ap_start"))
    assert await kernel.read("CTRL") == kernel.bit("CTRL", "ap_start")
    await ClockCycles(dut.ap_clk, 500)
    assert await kernel.read("IP_ISR") == 0, "no cause is enabled"
    assert await kernel.read("CTRL") == done | idle | ready
    assert await kernel.read("CTRL") == idle, "done and ready are cleared by reading"

    both = kernel.bit("IP_IER", "done") | kernel.bit("IP_IER", "ready")
    await kernel.write("IP_IER", both)
    await kernel.write("CTRL", kernel.bit("CTRL", "ap_start"))
    await ClockCycles(dut.ap_clk, 500)
    assert int(dut.interrupt.value) == 0, "not without the global enable"
    await kernel.write("GIER", kernel.bit("GIER", "enable"))
    assert int(dut.interrupt.value) == 1
    assert await kernel.read("IP_ISR") == both
    await kernel.write("IP_ISR", kernel.bit("IP_ISR", "done"))
    assert int(dut.interrupt.value) == 1, "ready is left"
    await kernel.write("IP_ISR", kernel.bit("IP_ISR", "ready"))
    assert int(dut.interrupt.value) == 0
    kernel.finish()


@cocotb.test()
async def random_tasks(dut):
    """Tasks one after the other, pauses on every channel of every model."""
    rng = Random(4)
    kernel = await board(dut, 4, 0.35)
    matches = 0
    for tuples, positions in ((1, 1), (3, 40), (17, 130), (40, 25), (9, 9)):
        task = kernel.build.random_task(rng, tuples, positions)
        await check(kernel, task)
        matches += len(kernel.build.expected(task))
    assert matches > 50
    kernel.finish()
    seen = sum((bursts.seen for bursts in kernel.monitor.bursts.values()), start=Counter())
    assert min(seen[name] for name in ("bursts", "read", "written")) > 20


@cocotb.test()
async def without_pauses(dut):
    """The same with models that never rest, where channels meet in the same cycle."""
    rng = Random(5)
    kernel = await board(dut, 5, 0.0)
    for tuples, positions in ((24, 200), (2, 1500)):
        await check(kernel, kernel.build.random_task(rng, tuples, positions))
    await check(kernel, kernel.build.dense_task(12, 60))
    kernel.finish()


@cocotb.test()
async def pause_and_resume(dut):
    """In the least room a dense task pauses, and what is left of it is a task again."""
    kernel = await board(dut, 6, 0.2)
    task = kernel.build.dense_task(14, 60)
    rest, pairs, pauses = [(np.arange(14), task.start)], [], 0
    while rest:
        rows, start = rest.pop(0)
        part = task.part(rows, start)
        status = await kernel.run(kernel.load(part, kernel.least_words))
        header, found = kernel.found(part)
        assert header["status"] == status
        assert header["words"] <= kernel.least_words
        pairs.append(np.stack([rows[found[:, 0]], found[:, 1]], axis=1))
        if status == "OK":
            continue
        assert status == "PAUSED"
        pauses += 1
        complete, loaded = header["complete"], header["loaded"]
        later = np.maximum(start, header["position"])
        for low, high, begin in ((complete, loaded, later), (loaded, len(rows), start)):
            left = np.arange(low, high)
            left = left[begin[left] < task.end[rows[left]]]
            if len(left):
                rest.append((rows[left], begin[left]))
    assert pauses > 1
    assert np.array_equal(ordered(np.concatenate(pairs)), kernel.build.expected(task))
    kernel.finish()


@cocotb.test()
async def errors_from_memory(dut):
    """A failed read or write ends the task with its status, and the next task is fine."""
    rng = Random(7)
    kernel = await board(dut, 7, 0.2)
    word = kernel.packing.word_bytes
    for address, size, status in (
        (PASSES, word, "READ_ERROR"),
        (TUPLES, word, "READ_ERROR"),
        (WINDOW + word, word, "READ_ERROR"),
        (RESULTS + word, ROOMY * word, "WRITE_ERROR"),
        (RESULTS, word, "WRITE_ERROR"),
    ):
        task = kernel.build.dense_task(3, 70)
        arguments = kernel.load(task, ROOMY)
        kernel.memory.spoil(address, size)
        assert await kernel.run(arguments) == status, hex(address)
        header = header_fields(kernel.described, kernel.results[:word])
        if address != RESULTS:
            assert kernel.status[header["status"]] == status
        await check(kernel, kernel.build.random_task(rng, 5, 20))
    kernel.finish()


@cocotb.test()
async def impossible_arguments(dut):
    """Misaligned addresses, zero lengths, no room, passes and ranges that cannot be."""
    kernel = await board(dut, 8, 0.2)
    task = kernel.build.dense_task(3, 10)
    good = kernel.load(task, ROOMY)
    for wrong, status in (
        ({"passes": PASSES + 32}, "MISALIGNED"),
        ({"tuples": TUPLES + 1}, "MISALIGNED"),
        ({"window": WINDOW + 63}, "MISALIGNED"),
        ({"results": RESULTS + 4}, "MISALIGNED"),
        ({"pass_count": 0}, "EMPTY"),
        ({"tuple_count": 0}, "EMPTY"),
        ({"window_count": 0}, "EMPTY"),
        ({"result_words": kernel.least_words - 1}, "NO_ROOM"),
        ({"tuple_count": 4}, "BAD_PASS"),
        ({"window_count": 9}, "BAD_PASS"),
    ):
        kernel.results[:] = 0
        assert await kernel.run(good | wrong) == status, wrong
        header = header_fields(kernel.described, kernel.results[: kernel.packing.header_bytes])
        if "results" not in wrong:
            assert kernel.status[header["status"]] == status, wrong
        else:
            assert not kernel.results.any(), "a misaligned address is not written to"
    # A range beyond its pass.
    beyond = np.array([10, 11, 11])
    kernel.memory.replace(TUPLES, kernel.packing.tuples(task.stream, task.start, beyond))
    assert await kernel.run(good) == "BAD_RANGE"
    await check(kernel, task)
    kernel.finish()
