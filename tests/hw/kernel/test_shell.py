"""The shell with memories beside it: how tasks end, and where their words are."""

from dataclasses import replace

import pytest

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.engine import JoinEngine
from penstock.hw.join.kernel.layout import HEADER
from penstock.hw.kernel.shell import Shell
from penstock.hw.kernel.status import Status
from tests.hw.kernel.kit import WORD_BYTES, bench

#: The write master holds few words, so that a memory that waits soon fills all queues.
CONFIG = replace(
    KernelConfig.fit(JoinConfig(units=2, tests=1, key_bits=8)), burst_words=4, write_words=4
)
PASSES, TUPLES, WINDOW, RESULTS = 0x1000, 0x2000, 0x3000, 0x8000
#: A band that every key meets, as low and high bound.
ALL = 0xFF00


def words_of(items, bits):
    """Items in slots of so many bits, as memory words."""
    per_word = 8 * WORD_BYTES // bits
    return [
        sum(item << bits * slot for slot, item in enumerate(items[first : first + per_word]))
        for first in range(0, len(items), per_word)
    ]


def serve(port, content):
    """A memory that reads a word per cycle."""

    async def process(ctx):
        asked = []
        ctx.set(port.burst.ready, 1)
        async for _, _, valid, burst in ctx.tick().sample(port.burst.valid, port.burst.payload):
            if valid:
                asked += [
                    (burst.id, burst.address + k * WORD_BYTES) for k in range(burst.length + 1)
                ]
            ctx.set(port.word.valid, bool(asked))
            if asked:
                ident, address = asked.pop(0)
                word = {"data": content[address], "id": ident, "error": 0}
                ctx.set(port.word.payload, word)

    return process


class Results:
    """A memory that is written, not before some cycle."""

    def __init__(self, port, opens):
        self.port, self.opens = port, opens
        self.content = {}

    async def serve(self, ctx):
        port, bursts, answers, cycle = self.port, [], 0, 0
        ctx.set(port.burst.ready, 1)
        async for _, _, asked, burst, valid, word, ready in ctx.tick().sample(
            port.burst.valid,
            port.burst.payload,
            port.word.valid,
            port.word.payload,
            port.word.ready,
        ):
            cycle += 1
            if asked:
                bursts += [burst.address + k * WORD_BYTES for k in range(burst.length + 1)]
            if valid and ready:
                address = bursts.pop(0)
                assert address not in self.content, "a word is written twice"
                self.content[address] = word.data
                answers += word.last
            ctx.set(port.word.ready, cycle >= self.opens)
            ctx.set(port.done.valid, answers > 0)
            answers -= answers > 0


def run(window, result_words, *, tuples=2, end=None, opens=0):
    """A task in which every pair matches; its header, and its results by their address."""
    end = window if end is None else end
    shell = Shell(JoinEngine(CONFIG))
    content = dict.fromkeys(range(0, RESULTS, WORD_BYTES), 0)
    parts = {
        PASSES: words_of([tuples | window << 64], 128),
        TUPLES: words_of([end << 32 | ALL << 64] * tuples, 128),
        WINDOW: [0] * window,
    }
    for address, words in parts.items():
        content |= {address + k * WORD_BYTES: word for k, word in enumerate(words)}
    arguments = {"passes": PASSES, "tuples": TUPLES, "window": WINDOW, "results": RESULTS}
    arguments |= {"pass_count": 1, "tuple_count": tuples, "window_count": window}
    arguments |= {"result_words": result_words, "table_0": 3}
    results = Results(shell.o_result_port, opens)

    async def finish(ctx):
        ctx.set(shell.i_arguments, arguments)
        await ctx.tick().repeat(3)
        ctx.set(shell.i_start, 1)
        done, cycles = 0, 0
        while not done:
            *_, done = await ctx.tick().sample(shell.o_done)
            cycles += 1
            assert cycles < 2000, "the task hangs"
        ctx.set(shell.i_start, 0)

    ports = [shell.o_m_axi_gmem0, shell.o_m_axi_gmem1]
    bench(shell, finish, background=[*(serve(port, content) for port in ports), results.serve])
    header, at = {}, 0
    for name, bits in HEADER.items():
        header[name] = results.content[RESULTS] >> at & (1 << bits) - 1
        at += bits
    return header, results.content


def ordinals(content):
    """Ordinals of the records, in the order of their words."""
    words = [content[address] for address in sorted(content) if address != RESULTS]
    return [word & 0xFFFFFFFF for word in words]


@pytest.mark.parametrize("window", [1, 40])
def test_a_task_with_room(window):
    """Each window tuple makes a record, each record a word: there is one block only."""
    header, content = run(window, CONFIG.least_result_words + window)
    assert header["status"] == Status.OK
    assert (header["complete"], header["loaded"], header["position"]) == (2, 2, window)
    assert header["words"] == header["records"] == header["window_flits"] == window
    assert header["passes"] == 1
    assert ordinals(content) == list(range(window))


@pytest.mark.parametrize("opens", [0, 400])
def test_a_task_out_of_room(opens):
    """It pauses in time, also where all queues were full when memory began to take words."""
    # So many that words waiting for memory do not end the task before the queues are full.
    room = CONFIG.least_result_words + 5
    header, content = run(400, room, opens=opens)
    assert header["status"] == Status.PAUSED
    # All tuples are loaded, none is complete.
    assert (header["complete"], header["loaded"]) == (0, 2)
    assert header["words"] == header["records"] == header["position"] == len(content) - 1
    assert ordinals(content) == list(range(header["words"]))
    assert header["words"] > 5
    assert max(content) <= RESULTS + room * WORD_BYTES
    # All records of queues came; of the nine words that the reserve has beside, one was needed.
    assert header["words"] <= room - 8
