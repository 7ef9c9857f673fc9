"""Band tests of a whole block of stream tuples at once, by the narrow codes of a window row.

A *mask* has a bit per tuple of a block. For each test there is a mask per narrow code (see
:mod:`penstock.host.keys.narrow`): which tuples' ranges may hold a key of that code. The AND of a
row's masks, one per test, has the tuples that the row may match; nearly always there are none.
The tests in full decide the rest, so narrow codes change no result.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from ...device.intrinsics import intrinsic
from ...keys.narrow import narrow_code

#: Words of a mask, 64 tuples each: one vector register of 256 bits.
WORDS = 4
#: Tuples of a mask.
BLOCK_ROWS = 64 * WORDS
#: Window rows that are looked at together, for one branch.
STEP = 4
#: Rows of a tile by which is decided whether masks rule out enough.
SAMPLE_ROWS = 64
#: Masks of all tests stay in a second-level cache, 256 KiB at most; with fewer tests it is their
#: number that rules out.
BITS = 13, 11, 10, 10, 9, 9, 9, 9

# Fields of a plan, an int64 array. Masks are used for tiles of at least so many tuples and window
# positions, in blocks with at least so many positions ahead, ...
TUPLES, WIDTH, AHEAD = range(3)
# ... and where at most this many of 1024 sampled pairs pass. The block whose masks are there, plus
# one, and the tiles that were tested by masks.
PASSING, MASKED, TILES = range(3, 6)
PLAN_FIELDS = 6

_I64 = ir.IntType(64)
_ONE = np.uint64(1)


def _data(context, builder, arrays, values, d):
    """Pointer to the items of array ``d`` of a tuple."""
    array = builder.extract_value(values, d)
    return context.make_array(arrays[d])(context, builder, array).data


def _word(context, builder, signature, args, d, position):
    """Pointer to the mask of test d for the narrow code at ``position``."""
    codes = _data(context, builder, signature.args[1], args[1], d)
    code = builder.zext(builder.load(builder.gep(codes, [position], inbounds=True)), _I64)
    masks = _data(context, builder, signature.args[0], args[0], d)
    return builder.gep(masks, [builder.mul(code, _I64(WORDS))], inbounds=True)


def _rows(context, builder, signature, args):
    """Masks of the tuples that may match each of the STEP rows from a position on."""
    vector = ir.VectorType(_I64, WORDS)
    for row in range(STEP):
        at, words = builder.add(args[2], _I64(row)), []
        for d in range(len(signature.args[0])):
            pointer = _word(context, builder, signature, args, d, at)
            pointer = builder.bitcast(pointer, vector.as_pointer())
            words.append(builder.load(pointer, align=8))
        yield reduce(builder.and_, words)


@intrinsic
def any_passes(typingctx, masks, codes, position):
    """Whether some tuple may match one of the STEP rows at ``position``.

    Parameters
    ----------
    masks : tuple of D arrays of uint64
        WORDS per narrow code.
    codes : tuple of D arrays of uint16, shape (>= position + STEP,)
    position : int64

    Returns
    -------
    boolean
    """

    def codegen(context, builder, signature, args):
        merged = reduce(builder.or_, _rows(context, builder, signature, args))
        merge = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(_I64, [merged.type]),
            f"llvm.vector.reduce.or.v{WORDS}i64",
        )
        return builder.icmp_unsigned("!=", builder.call(merge, [merged]), _I64(0))

    return types.boolean(masks, codes, types.int64), codegen


@intrinsic
def which_pass(typingctx, masks, codes, position):
    """Whether each word of the STEP rows' masks is not 0, as a uint64: bit ``WORDS * row + word``.

    To go through these bits is one branch that is mispredicted, instead of one per word.
    """

    def codegen(context, builder, signature, args):
        bits = []
        for row, mask in enumerate(_rows(context, builder, signature, args)):
            some = builder.icmp_unsigned("!=", mask, ir.Constant(mask.type, [0] * WORDS))
            some = builder.zext(builder.bitcast(some, ir.IntType(WORDS)), _I64)
            bits.append(builder.shl(some, _I64(WORDS * row)))
        return reduce(builder.or_, bits)

    return types.uint64(masks, codes, types.int64), codegen


@intrinsic
def passing(typingctx, masks, codes, position, word):
    """One word, as uint64, of the mask of tuples that may match the row at ``position``."""

    def codegen(context, builder, signature, args):
        words = []
        for d in range(len(signature.args[0])):
            pointer = _word(context, builder, signature, args, d, args[2])
            words.append(builder.load(builder.gep(pointer, [args[3]], inbounds=True)))
        return reduce(builder.and_, words)

    return types.uint64(masks, codes, types.int64, types.int64), codegen


@intrinsic
def holds(typingctx, window, position, low, span, row):
    """Whether every test holds for the window row at ``position`` and the tuple ``row``."""

    def codegen(context, builder, signature, args):
        def item(k, d, at):
            data = _data(context, builder, signature.args[k], args[k], d)
            return builder.load(builder.gep(data, [at], inbounds=True))

        tests = []
        for d in range(len(signature.args[0])):
            above = builder.sub(item(0, d, args[1]), item(2, d, args[4]))
            tests.append(builder.icmp_unsigned("<=", above, item(3, d, args[4])))
        return reduce(builder.and_, tests)

    return types.boolean(window, types.int64, low, span, types.int64), codegen


@njit(nogil=True)
def make_masks(masks, arguments, low, span, first, last):
    """Make the masks of one test for the tuples ``[first, last)``, at most BLOCK_ROWS.

    ``arguments`` are those of the test's narrow codes.
    """
    # Taken apart here: a tuple that is passed on in a loop counts references to its arrays.
    edges, shift, begins, null, narrow_null = arguments
    masks[:] = 0
    for i in range(first, last):
        word, bit = (i - first) >> 6, _ONE << np.uint64((i - first) & 63)
        high = np.uint64(low[i]) + np.uint64(span[i])
        at = narrow_code(low[i], edges, shift, begins, null, narrow_null)
        behind = narrow_code(high, edges, shift, begins, null, narrow_null) + 1
        masks[at * WORDS + word] ^= bit
        masks[behind * WORDS + word] ^= bit
    # Bits change where a range begins and behind its end.
    for at in range(WORDS, len(masks)):
        masks[at] ^= masks[at - WORDS]


@njit(nogil=True)
def is_match(window, low, span, start, end, last, edge, i, j):
    """Whether tuple i below ``last`` matches row j of its range below ``edge``; no branch."""
    is_in = (i < last) & (start[i] <= j) & (j < min(end[i], edge))
    return is_in & holds(window, j, low, span, i)
