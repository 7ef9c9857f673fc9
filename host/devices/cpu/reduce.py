"""Reductions of the values of a granule under a mask, as LLVM vector code (see ``vector``)."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .vector import GRANULE, Intrinsic, _load, intrinsic

_I64 = ir.IntType(64)


def _reduction(operation: str, neutral: Callable[[int], int], widen: bool) -> Intrinsic:
    """An intrinsic ``(values, position, mask) -> scalar`` over the lanes that the mask selects.

    Parameters
    ----------
    operation : str
        LLVM's name of the reduction.
    neutral : callable
        From the width in bits to the value of lanes that are not selected.
    widen : bool
        Whether to reduce in 64 bits whatever the width of the values.
    """

    @intrinsic
    def reduce(typingctx, values, position, mask):
        def codegen(context, builder, signature, args):
            loaded = _load(context, builder, signature.args[0], args[0], args[1])
            bits = loaded.type.element.width
            if widen and bits < 64:
                bits = 64
                loaded = builder.sext(loaded, ir.VectorType(_I64, GRANULE))
            chosen = builder.bitcast(args[2], ir.VectorType(ir.IntType(1), GRANULE))
            nothing = ir.Constant(loaded.type, [neutral(bits)] * GRANULE)
            lanes = builder.select(chosen, loaded, nothing)
            function = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(ir.IntType(bits), [lanes.type]),
                f"llvm.vector.reduce.{operation}.v{GRANULE}i{bits}",
            )
            reduced = builder.call(function, [lanes])
            return reduced if bits == 64 else builder.sext(reduced, _I64)

        return types.int64(values, types.int64, types.uint64), codegen

    return reduce


#: Sum of 64 signed integers, modulo 2**64.
masked_sum = _reduction("add", lambda bits: 0, widen=True)
#: Smallest and greatest of 64 signed integers; without any, the greatest and smallest of the type.
masked_min = _reduction("smin", lambda bits: (1 << (bits - 1)) - 1, widen=False)
masked_max = _reduction("smax", lambda bits: -(1 << (bits - 1)), widen=False)
