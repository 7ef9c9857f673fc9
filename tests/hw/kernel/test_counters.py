from penstock.hw.kernel.counters import STEPS, Counters
from tests.hw.kernel.kit import bench


def test_sums_of_two_tasks():
    counters = Counters()

    async def finish(ctx):
        for task in range(2):
            ctx.set(counters.i_clear, 1)
            await ctx.tick()
            ctx.set(counters.i_clear, 0)
            for name in STEPS:
                assert ctx.get(counters.sum(name)) == 0
            steps = {name: (1 << bits) - 1 - task for name, bits in STEPS.items()}
            for name, step in steps.items():
                ctx.set(counters.step(name), step)
            await ctx.tick().repeat(5)
            for name, step in steps.items():
                assert ctx.get(counters.sum(name)) == 5 * step

    bench(counters, finish)
