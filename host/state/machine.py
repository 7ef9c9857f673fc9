"""Machine instructions that Numba lacks: plain loads and stores, prefetches, bits of floats."""

from __future__ import annotations

from llvmlite import ir
from numba import types

from ..device.intrinsics import intrinsic


@intrinsic
def prefetch(typingctx, array, position):
    """Build a prefetch of the cache line that holds an array's item.

    Parameters
    ----------
    array : 1-D contiguous array
    position : int64
        Of the item.
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


@intrinsic
def float_of(typingctx, word):
    """Build the double whose bits are an int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def word_of(typingctx, value):
    """Build the bits of a double as an int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def at(typingctx, array, position):
    """Build a load of a contiguous array's item, without a check of the position."""

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args)
        return context.unpack_value(builder, signature.args[0].dtype, pointer)

    return array.dtype(array, types.int64), codegen


@intrinsic
def put(typingctx, array, position, value):
    """Build a store of a contiguous array's item, without a check of the position."""

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args)
        context.pack_value(builder, signature.args[0].dtype, args[2], pointer)
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), codegen


def _pointer(context, builder, array_type, args):
    data = context.make_array(array_type)(context, builder, args[0]).data
    return builder.gep(data, [args[1]], inbounds=True)
