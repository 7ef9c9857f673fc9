from penstock.hw.join.kernel.layout import COUNTERS
from penstock.hw.kernel.shell import Counters
from tests.hw.kernel.kit import bench


def test_sums_of_two_tasks():
    counters = Counters(COUNTERS)

    async def finish(ctx):
        for task in range(2):
            ctx.set(counters.i_clear, 1)
            await ctx.tick().repeat(2)
            ctx.set(counters.i_clear, 0)
            for name in COUNTERS:
                assert ctx.get(counters.o_sums[name]) == 0
            steps = {name: (1 << bits) - 1 - task for name, bits in COUNTERS.items()}
            ctx.set(counters.i_steps, steps)
            await ctx.tick().repeat(5)
            ctx.set(counters.i_steps, dict.fromkeys(COUNTERS, 0))
            await ctx.tick()
            for name, step in steps.items():
                assert ctx.get(counters.o_sums[name]) == 5 * step

    bench(counters, finish)
