"""Two operators in a row, in Amaranth's simulator: a join of three streams against brute force."""

import random
from collections import Counter

import pytest
from amaranth.sim import Simulator

from penstock.hw.verilog import verilog
from penstock.hw.window.cascade import Cascade, CascadeConfig
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.layout import Side, State
from tests.hw.kit import needs_yosys, yosys_accepts
from tests.hw.window.reference import join

#: A payload is the tuple's number and, above it, the key by which B is joined with C.
NUMBER_BITS, KEY_BITS = 6, 2
BITS = NUMBER_BITS + KEY_BITS

FIRST = WindowConfig(depth=4, key_bits=KEY_BITS, payload_a_bits=BITS, payload_b_bits=BITS)
SECOND = WindowConfig(
    depth=8, banks=2, key_bits=KEY_BITS, payload_a_bits=2 * BITS, payload_b_bits=BITS
)


def cascade(first=FIRST, second=SECOND):
    """A is joined with B by a key, and B with C by another, which is part of B's payload."""
    return Cascade(CascadeConfig(first, second), lambda result: result.b[NUMBER_BITS:])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"outputs": 2}, {}, "must have one result per cycle, not 2"),
        ({"payload_a_bits": 9}, {}, "must have 17 bits, those of both payloads of the first"),
        ({"tests": 1}, {}, "the first build must be for equality without timestamps"),
        ({}, {"time_bits": 8}, "the second build must be for equality without timestamps"),
    ],
)
def test_bad_arguments(first, second, message):
    with pytest.raises(ValueError, match=message):
        CascadeConfig(
            WindowConfig(**{"payload_a_bits": BITS, "payload_b_bits": BITS, **first}),
            WindowConfig(**{"payload_a_bits": 2 * BITS, **second}),
        )


class Outcome:
    """What happened in a run: tuples as they were admitted, and results as they left."""

    def __init__(self):
        #: Per operator; tuples are payloads with their keys.
        self.admitted = {"first": [], "second": []}
        self.dropped = {"a": 0, "b": 0, "ab": 0, "c": 0}
        self.results = []
        #: Cycles in which each operator waited.
        self.waits = [0, 0]
        self.counters = {}


def run(both, schedules, rows, *, shed, ready, limit, until_idle=True):
    """Run three streams of (cycle, key, payload) through a cascade."""
    out = Outcome()
    ports = {"a": both.i_a, "b": both.i_b, "c": both.i_c}
    inner = {
        "first": (both.first, (both.first.i_a, both.first.i_b), "ab"),
        "second": (both.second, (both.second.i_a, both.second.i_b), ("ab", "c")),
    }

    async def bench(ctx):
        for name, size in rows.items():
            ctx.set(getattr(both, f"rows_{name}"), size)
        ctx.set(both.shed, shed)
        at = dict.fromkeys(ports, 0)
        waiting = {name: [None, None] for name in inner}
        ended = False
        for cycle in range(limit):
            for name, port in ports.items():
                todo = schedules[name]
                offers = at[name] < len(todo) and todo[at[name]][0] <= cycle
                ctx.set(port.valid, offers)
                if offers:
                    _, key, payload = todo[at[name]]
                    ctx.set(port.payload, {"key": key, "payload": payload})
            takes = ready(cycle)
            ctx.set(both.o.ready, takes)
            for name, (operator, inputs, names) in inner.items():
                admitted, dropped = ctx.get(operator.o_admitted), ctx.get(operator.o_dropped)
                for side in Side:
                    if admitted >> side.value & 1:
                        out.admitted[name].append((side, waiting[name][side.value]))
                for side, port in zip(Side, inputs, strict=True):
                    if ctx.get(port.valid) and ctx.get(port.ready):
                        if dropped >> side.value & 1:
                            out.dropped[names[side.value]] += 1
                        else:
                            taken = ctx.get(port.payload)
                            waiting[name][side.value] = (taken.key, taken.payload)
                states = ctx.get(operator.o_state_a), ctx.get(operator.o_state_b)
                if states != (State.READY, State.READY):
                    assert not ctx.get(both.o_idle), f"idle while the {name} operator works"
            for name, port in ports.items():
                at[name] += ctx.get(port.valid) and ctx.get(port.ready)
            for stage in range(2):
                out.waits[stage] += ctx.get(both.o_waits) >> stage & 1
            if ctx.get(both.o.valid) and takes:
                result = ctx.get(both.o.payload.results[0])
                out.results.append((result.a, result.b, Side(result.later)))
            if until_idle and ended and ctx.get(both.o_idle):
                break
            ended = all(at[name] == len(schedules[name]) for name in ports)
            await ctx.tick()
        else:
            assert not until_idle, f"it hangs after {limit} cycles"
        await ctx.tick()
        for name in inner:
            counters = getattr(ctx.get(both.o_counters), name)
            out.counters[name] = {
                what: sum(counters[f"{what}_{side}"] for side in "ab")
                for what in ("admitted", "shed")
            }
        out.left = {name: len(schedules[name]) - at[name] for name in ports}

    simulator = Simulator(both)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    return out


def by_key(a, b, later):
    return a[0] == b[0]


@pytest.mark.parametrize("shed", range(4))
@pytest.mark.parametrize("seed", range(3))
def test_three_streams(seed, shed):
    rng = random.Random(f"{seed} {shed}")
    schedules = {
        name: sorted(
            (rng.randrange(200), rng.randrange(1 << KEY_BITS), number | rng.randrange(4) << 6)
            for number in range(rng.randint(20, 40))
        )
        for name in "abc"
    }
    rows = {"a": 4, "b": rng.randint(1, 4), "ab": rng.randint(1, 8), "c": 8}
    share = rng.choice([0, 0.3, 0.6])
    out = run(
        cascade(),
        schedules,
        rows,
        shed=shed,
        ready=lambda cycle: rng.random() >= share,
        limit=8000,
    )
    # What the first admitted makes the tuples of side A of the second, but for those it dropped.
    made = Counter(
        (b[1] >> NUMBER_BITS, a[1] | b[1] << BITS)
        for a, b, _ in join(out.admitted["first"], rows["a"], rows["b"], by_key)
    )
    came = Counter(item for side, item in out.admitted["second"] if side is Side.A)
    assert came <= made
    assert (made - came).total() == out.dropped["ab"]
    found = Counter(out.results)
    assert found == Counter(
        (ab[1], c[1], later)
        for ab, c, later in join(out.admitted["second"], rows["ab"], rows["c"], by_key)
    )
    assert found.total() > 0
    # Shed and admitted are what arrived, of each stream; nothing is shed under back-pressure.
    admitted = Counter(side for side, _ in out.admitted["first"])
    assert admitted[Side.A] + out.dropped["a"] == len(schedules["a"])
    assert admitted[Side.B] + out.dropped["b"] == len(schedules["b"])
    assert len(out.admitted["second"]) - came.total() + out.dropped["c"] == len(schedules["c"])
    for name, whose in (("first", "ab"), ("second", ("ab", "c"))):
        wanted = {"admitted": len(out.admitted[name]), "shed": sum(out.dropped[w] for w in whose)}
        assert out.counters[name] == wanted
    if not shed & 1:
        assert out.dropped["a"] == out.dropped["b"] == 0
    if not shed & 2:
        assert out.dropped["ab"] == out.dropped["c"] == 0


def test_triples_by_definition():
    """With windows that hold all, each triple that meets both equalities is found exactly once."""
    rng = random.Random(1)
    first = WindowConfig(depth=16, key_bits=KEY_BITS, payload_a_bits=BITS, payload_b_bits=BITS)
    second = WindowConfig(
        depth=128, banks=4, key_bits=KEY_BITS, payload_a_bits=2 * BITS, payload_b_bits=BITS
    )
    schedules = {
        name: [(rng.randrange(100), rng.randrange(4), n | rng.randrange(4) << 6) for n in range(12)]
        for name in "abc"
    }
    for schedule in schedules.values():
        schedule.sort(key=lambda item: item[0])
    rows = {"a": 16, "b": 16, "ab": 128, "c": 128}
    everything = {"shed": 0, "ready": lambda cycle: True, "limit": 20_000}
    out = run(cascade(first, second), schedules, rows, **everything)
    assert Counter((ab, c) for ab, c, _ in out.results) == Counter(
        (a | b << BITS, c)
        for _, key_a, a in schedules["a"]
        for _, key_b, b in schedules["b"]
        for _, key_c, c in schedules["c"]
        if key_a == key_b and b >> NUMBER_BITS == key_c
    )
    assert len(out.results) > 20


@pytest.mark.parametrize("shed", range(4))
def test_output_stalled_for_ever(shed):
    """The second waits, and so does the first unless the second sheds its results; an operator that
    sheds takes all of its tuples, one that does not takes none after the first few."""
    schedules = {name: [(0, 0, 0)] * 150 for name in "abc"}
    rows = {"a": 4, "b": 4, "ab": 8, "c": 8}
    stalled = {"ready": lambda cycle: False, "limit": 600, "until_idle": False}
    out = run(cascade(), schedules, rows, shed=shed, **stalled)
    assert out.results == []
    # All cycles but those in which the FIFOs fill.
    assert out.waits[1] > 500
    assert (out.waits[0] > 400) == (shed < 2)
    for name, bit in (("a", 1), ("b", 1), ("c", 2)):
        if shed & bit:
            assert out.left[name] == 0
            continue
        assert out.dropped[name] == 0
        # Where the second sheds, the first goes on.
        if name == "c" or shed == 0:
            assert out.left[name] > 0


@needs_yosys
def test_yosys_accepts_it(tmp_path):
    yosys_accepts(verilog(cascade(), "cascade"), "cascade", tmp_path)
