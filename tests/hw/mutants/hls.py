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
            "test_small_operands_in_full[shape0]",
        ),
        (
            "Const(1) if carry is None",
            "Const(0) if carry is None",
            "equal operands are not at most each other",
            "formal/test_proofs.py::test_claims_hold[comparison]",
        ),
        (
            "pairs[-1] = b_sign, a_sign",
            "pass",
            "signs are compared as numbers",
            "test_small_operands_in_full[shape1]",
        ),
    ),
    *mutants(
        "hls.lower",
        "hls/test_datapath.py",
        (
            "negative, negated, size",
            "negative, size, negated",
            "a remainder has the opposite sign",
            "test_each_operation[simulation-below-mod 8]",
        ),
        (
            "0, divisor - 1, dividend, _const(divisor - 1)",
            "0, divisor - 1, dividend, _const(divisor)",
            "a remainder by a power of two takes the wrong bits",
            "test_each_operation[simulation-below-mod 8]",
        ),
    ),
    *mutants(
        "hls.datapath",
        "hls/test_datapath.py",
        (
            "live & at(self.schedule.expr, latency)",
            "at(self.schedule.expr, latency)",
            "pairs of keys that do not count match in general form",
            "test_each_operation[None-equal-abs]",
        ),
        (
            "return -1 - a[0]",
            "return -a[0]",
            "an inversion is a negation",
            "test_each_operation[simulation-below-mod -7]",
        ),
        (
            "low, high = a if op is Op.LEAST",
            "low, high = a if op is Op.GREATEST",
            "LEAST and GREATEST are exchanged",
            "test_each_operation[simulation-below-least]",
        ),
    ),
    *mutants(
        "hls.carry",
        "hls/test_carry.py",
        (
            "_const(b.attr - 1), under",
            "_const(b.attr), under",
            "< becomes <= where a carry is absorbed",
            "test_each_value",
        ),
        (
            "_opposite(under)), over",
            "under), over",
            "a difference of absolute values is off by the sign",
            "test_each_value",
        ),
    ),
]
