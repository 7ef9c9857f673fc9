"""LLVM vector code that compiled loops share: loads, splats and the lowest bit of a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

_I32 = ir.IntType(32)


class Intrinsic(Protocol):
    """An intrinsic's signature in compiled code: without the typing context."""

    def __call__(self, *args: Any) -> Any: ...


def intrinsic(function: Callable[..., Any]) -> Intrinsic:
    """Numba's decorator, with a type that drops the typing context from the parameters."""
    return extending.intrinsic(function)


def splat(builder, scalar, lanes):
    """A vector with ``scalar`` in each of its ``lanes``."""
    vector = ir.VectorType(scalar.type, lanes)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, _I32(0))
    zeros = ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def load(context, builder, array_type, array, position, lanes):
    """``lanes`` items of a contiguous 1-D array from ``position``; they need no alignment."""
    data = context.make_array(array_type)(context, builder, array).data
    item = context.get_data_type(array_type.dtype)
    pointer = builder.gep(data, [position], inbounds=True)
    vector = ir.VectorType(item, lanes)
    return builder.load(
        builder.bitcast(pointer, vector.as_pointer()),
        align=array_type.dtype.bitwidth // 8,
    )


def prefetch(builder, place):
    """Bring the line of a pointer to the cache, for reading; the pointer may be any."""
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    # To stay in all caches, data.
    builder.call(function, [builder.bitcast(place, byte), _I32(0), _I32(3), _I32(1)])


@intrinsic
def ask(typingctx, array, position):
    """Ask for the item at ``position`` of an array, so that it is in the cache later."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        prefetch(builder, builder.gep(data, [args[1]]))
        return context.get_dummy_value()

    return types.none(array, types.int64), codegen


@intrinsic
def lowest_bit(typingctx, mask):
    """Position of the lowest bit set in a uint64, as int64; 64 if none is."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], cgutils.false_bit)

    return types.int64(types.uint64), codegen
