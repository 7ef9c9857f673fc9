import pytest
from amaranth.sim import Simulator

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import describe
from penstock.hw.kernel.control import RegisterFile

CTRL, GIER, IER, ISR, STATUS = 0x00, 0x04, 0x08, 0x0C, 0xA0


@pytest.fixture
def run():
    """Runs a bench against a register file of a kernel with six tests."""
    registers = RegisterFile(describe(KernelConfig.fit(JoinConfig(units=4, tests=6))).registers)

    def start(process):
        simulator = Simulator(registers)
        simulator.add_clock(1e-8)

        async def whole(ctx):
            await process(ctx, registers)

        simulator.add_testbench(whole)
        simulator.run()

    return start


async def write(ctx, registers, address, value, strobe=15, data_first=False):
    bus = registers.bus
    ctx.set(bus.AWADDR, address)
    ctx.set(bus.WDATA, value)
    ctx.set(bus.WSTRB, strobe)
    halves = [(bus.AWVALID, bus.AWREADY), (bus.WVALID, bus.WREADY)]
    for valid, ready in reversed(halves) if data_first else halves:
        ctx.set(valid, 1)
        await ctx.tick().until(ready)
        ctx.set(valid, 0)
        await ctx.tick().repeat(2)
    assert ctx.get(bus.BVALID), "the answer waits for BREADY"
    ctx.set(bus.BREADY, 1)
    await ctx.tick()
    ctx.set(bus.BREADY, 0)


async def read(ctx, registers, address):
    bus = registers.bus
    ctx.set(bus.ARADDR, address)
    ctx.set(bus.ARVALID, 1)
    await ctx.tick().until(bus.ARREADY)
    ctx.set(bus.ARVALID, 0)
    await ctx.tick().repeat(2)
    value = ctx.get(bus.RDATA)
    assert ctx.get(bus.RVALID), "the answer waits for RREADY"
    ctx.set(bus.RREADY, 1)
    await ctx.tick()
    ctx.set(bus.RREADY, 0)
    return value


async def end(ctx, registers):
    ctx.set(registers.i_done, 1)
    await ctx.tick()
    ctx.set(registers.i_done, 0)


def test_arguments(run):
    async def process(ctx, registers):
        await write(ctx, registers, 0x10, 0x89ABCDEF)
        await write(ctx, registers, 0x14, 0x01234567, data_first=True)
        assert ctx.get(registers.o_arguments.passes) == 0x0123456789ABCDEF
        await write(ctx, registers, 0x14, 0xFFFFFFFF, strobe=0b0100)
        assert await read(ctx, registers, 0x14) == 0x01FF4567
        await write(ctx, registers, 0x68, 5)
        assert ctx.get(registers.o_arguments.table_1) == 5
        assert await read(ctx, registers, 0x68) == 5

    run(process)


def test_nothing_there(run):
    """Addresses without a register answer, too; so does a register that only hardware sets."""

    async def process(ctx, registers):
        ctx.set(registers.status("status"), 6)
        for address in (STATUS, 0x70, 0xFFC):
            await write(ctx, registers, address, 0xFFFFFFFF)
        assert await read(ctx, registers, STATUS) == 6
        assert await read(ctx, registers, 0x70) == 0
        assert await read(ctx, registers, 0xFFC) == 0
        assert await read(ctx, registers, 0x100 + STATUS) == 0

    run(process)


def test_start_and_done(run):
    async def process(ctx, registers):
        ctx.set(registers.i_idle, 1)
        assert await read(ctx, registers, CTRL) == 0b0100
        await write(ctx, registers, CTRL, 1)
        ctx.set(registers.i_idle, 0)
        assert ctx.get(registers.o_start)
        assert await read(ctx, registers, CTRL) == 0b0001
        await end(ctx, registers)
        assert not ctx.get(registers.o_start)
        assert await read(ctx, registers, CTRL) == 0b1010
        assert await read(ctx, registers, CTRL) == 0, "done and ready are cleared by reading"

    run(process)


def test_auto_restart(run):
    async def process(ctx, registers):
        await write(ctx, registers, CTRL, 0x81)
        await end(ctx, registers)
        assert ctx.get(registers.o_start)
        assert await read(ctx, registers, CTRL) == 0x8B
        await write(ctx, registers, CTRL, 0)
        await end(ctx, registers)
        assert not ctx.get(registers.o_start)

    run(process)


@pytest.mark.parametrize(("enabled", "causes"), [(0b01, 0b01), (0b10, 0b10), (0b11, 0b11)])
def test_interrupts(run, enabled, causes):
    async def process(ctx, registers):
        await write(ctx, registers, IER, enabled)
        await end(ctx, registers)
        assert not ctx.get(registers.o_interrupt), "not without the global enable"
        await write(ctx, registers, GIER, 1)
        assert ctx.get(registers.o_interrupt)
        assert await read(ctx, registers, ISR) == causes
        await write(ctx, registers, ISR, causes)
        assert not ctx.get(registers.o_interrupt)
        await write(ctx, registers, ISR, 1)
        assert ctx.get(registers.o_interrupt), "a 1 toggles"

    run(process)


@pytest.mark.parametrize("enabled", [0b01, 0b10, 0b11])
def test_an_event_stays_until_it_is_cleared(run, enabled):
    """Two tasks may end before the host looks, and one in the cycle in which it clears."""

    async def process(ctx, registers):
        await write(ctx, registers, IER, enabled)
        await end(ctx, registers)
        await end(ctx, registers)
        assert await read(ctx, registers, ISR) == enabled, "the second event comes to the first"
        bus = registers.bus
        ctx.set(bus.AWADDR, ISR)
        ctx.set(bus.WDATA, enabled)
        ctx.set(bus.WSTRB, 15)
        ctx.set(bus.AWVALID, 1)
        ctx.set(bus.WVALID, 1)
        await ctx.tick()
        ctx.set(bus.AWVALID, 0)
        ctx.set(bus.WVALID, 0)
        await ctx.tick()
        await end(ctx, registers)  # the cycle of the write
        ctx.set(bus.BREADY, 1)
        await ctx.tick()
        ctx.set(bus.BREADY, 0)
        assert await read(ctx, registers, ISR) == enabled, "the new event is not cleared"
        await write(ctx, registers, ISR, enabled)
        assert await read(ctx, registers, ISR) == 0

    run(process)
