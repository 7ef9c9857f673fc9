"""Loads and stores of 64-bit words that other processes change, with the order that they need.

A plain store may become visible before one that precedes it, and a plain load may be done early;
x86 does neither, aarch64 both. Numba has no such operations, LLVM has.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import extending, njit, types

from penstock.kept_code import keep

_WORD_BYTES = 8
_WORD = ir.IntType(8 * _WORD_BYTES)


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's decorator, with a type that drops the typing context from the parameters."""
    return extending.intrinsic(function)


def _pointer(context, builder, array_type, array, place):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [place], inbounds=True)


@intrinsic
def load_word(typingctx, words, place):
    """:func:`load_acquire` for compiled code."""

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], *args)
        return builder.load_atomic(pointer, "acquire", _WORD_BYTES)

    return types.uint64(words, types.int64), codegen


@intrinsic
def store_word(typingctx, words, place, value):
    """:func:`store_release` for compiled code."""

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], *args[:2])
        builder.store_atomic(args[2], pointer, "release", _WORD_BYTES)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.uint64), codegen


def _changing(operation: str) -> Callable[..., Any]:
    """Build an intrinsic for an atomic read-modify-write that returns the old value."""

    @intrinsic
    def changed(typingctx, words, place, value):
        def codegen(context, builder, signature, args):
            pointer = _pointer(context, builder, signature.args[0], *args[:2])
            return builder.atomic_rmw(operation, pointer, args[2], "seq_cst")

        return types.uint64(words, types.int64, types.uint64), codegen

    return changed


_exchange, _add = _changing("xchg"), _changing("add")


@intrinsic
def _compare_exchange(typingctx, words, place, old, new):
    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], *args[:2])
        pair = builder.cmpxchg(pointer, args[2], args[3], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(words, types.int64, types.uint64, types.uint64), codegen


@intrinsic
def fence_all(typingctx):
    """Full fence, for compiled code: no load or store moves across it."""

    def codegen(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


def _kept(function: Callable[..., Any]) -> Any:
    """Compile a short function that keeps the interpreter's lock: to release it takes longer."""
    return keep(njit(function), Path(__file__).read_bytes())


@_kept
def load_acquire(words, place):
    """Load word ``place``; later loads see all that was stored before the word was (acquire).

    Parameters
    ----------
    words : array of uint64, shape (n,), contiguous
    place : int
        Below n, which is not checked.

    Returns
    -------
    uint64
    """
    return load_word(words, place)


@_kept
def store_release(words, place, value):
    """Store word ``place``; who then loads it sees all that was stored before (release).

    Parameters
    ----------
    words : array of uint64, shape (n,), contiguous
    place : int
        Below n, which is not checked.
    value : int
        Not negative, below 2**64.
    """
    store_word(words, place, types.uint64(value))


@_kept
def announce(words, place):
    """Set word ``place`` to 1; everyone can see it before any later load is done."""
    _exchange(words, place, types.uint64(1))
    fence_all()


@_kept
def take_announced(words, place):
    """Set word ``place`` to 0, after all earlier stores can be seen; returns whether it was 1.

    With :func:`announce` that is the rule of Dekker: of two processes that each store and then look
    at what the other stores, one at least sees it.
    """
    fence_all()
    return load_word(words, place) == 1 and _exchange(words, place, types.uint64(0)) == 1


@_kept
def replace_word(words, place, old, new):
    """Compare and swap: set word ``place`` if it has the expected value; returns whether it had."""
    return _compare_exchange(words, place, types.uint64(old), types.uint64(new))


@_kept
def add_word(words, place, value):
    """Add to word ``place`` atomically."""
    _add(words, place, types.uint64(value))
