"""Asks the processor for memory that is needed soon, so that misses overlap."""

from __future__ import annotations

from llvmlite import ir
from numba import types

from ..devices.cpu.vector import intrinsic


@intrinsic
def prefetch(typingctx, array, position):
    """Begin to load the cache line of an array's item, and go on.

    Parameters
    ----------
    array : 1-D contiguous array
    position : int64
        In the array.
    """

    def codegen(context, builder, signature, args):
        held, at = args
        data = context.make_array(signature.args[0])(context, builder, held).data
        pointer = builder.gep(data, [at], inbounds=True)
        word = ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [pointer.type],
            ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word]),
        )
        # To be written, kept in all caches, data.
        builder.call(function, [pointer, word(1), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, position), codegen
