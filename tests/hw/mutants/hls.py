"""Mutants of the compiler of predicates."""

from .mutant import Mutant, mutants

MUTANTS: list[Mutant] = [
    *mutants(
        "hls.compare",
        "hls/test_compare.py",
        (
            "b & ~a | ~(a ^ b) & below",
            "b & ~a | (a ^ b) & below",
            "equal bits do not pass the comparison on",
            "hls/test_compare.py",
        ),
        (
            "Const(1) if carry is None",
            "Const(0) if carry is None",
            "equal operands are not at most each other",
            "hls/test_compare.py",
        ),
        (
            "pairs[-1] = b_sign, a_sign",
            "pass",
            "signs are compared as numbers",
            "hls/test_compare.py",
        ),
    ),
    *mutants(
        "hls.lower",
        "hls/test_datapath.py",
        (
            "negative, negated, size",
            "negative, size, negated",
            "a remainder has the opposite sign",
            "hls/test_datapath.py",
        ),
        (
            "-divisor < lo and hi < divisor",
            "-divisor < lo and hi <= divisor",
            "a number is its own remainder by itself",
            "hls/test_datapath.py",
        ),
        (
            "0, divisor - 1, dividend, _const(divisor - 1)",
            "0, divisor - 1, dividend, _const(divisor)",
            "a remainder by a power of two takes the wrong bits",
            "hls/test_datapath.py",
        ),
    ),
    *mutants(
        "hls.datapath",
        "hls/test_datapath.py",
        (
            "live & at(self.schedule.expr, latency)",
            "at(self.schedule.expr, latency)",
            "keys that do not count give matches",
            "hls/test_datapath.py",
        ),
        ("return -1 - a[0]", "return -a[0]", "an inversion is a negation", "hls/test_datapath.py"),
        (
            "low, high = a if op is Op.LEAST",
            "low, high = a if op is Op.GREATEST",
            "LEAST and GREATEST are exchanged",
            "hls/test_datapath.py",
        ),
    ),
    *mutants(
        "hls.carry",
        "hls/test_carry.py",
        (
            "_const(b.attr - 1), under",
            "_const(b.attr), under",
            "< becomes <= where a carry is absorbed",
            "hls/test_carry.py",
        ),
        (
            "_opposite(under)), over",
            "under), over",
            "a difference of absolute values is off by the sign",
            "hls/test_carry.py",
        ),
    ),
    *mutants(
        "hls.schedule",
        "hls/test_schedule.py",
        (
            "ready + 1 if node.sides and node.args else ready",
            "ready",
            "a value of the stream is used where it is not registered",
            "hls/test_schedule.py",
        ),
        (
            "start + delay > model.budget_ps and start > 0",
            "start > 2 * model.budget_ps",
            "operations of a stage take longer than a clock",
            "hls/test_schedule.py",
        ),
    ),
]
