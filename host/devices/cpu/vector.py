"""The few vector operations that the CPU kernels are built from.

Each works on a *granule*: 64 consecutive window positions, whose outcomes are the bits of one
uint64. They are written as LLVM vector code of 64 lanes, because loops that the compiler vectorises
by itself change with its version and with every detail of the loop around them. LLVM cuts 64
lanes to the machine's vector registers, if any: 512-bit or 256-bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ...device.intrinsics import Intrinsic, intrinsic, load, prefetch, splat

#: Window positions per granule, one bit of a mask each.
GRANULE = 64
#: Bytes that come into a cache together.
LINE_BYTES = 64
#: Window positions that are tested together before any mask is built.
CHUNK = 4 * GRANULE
#: Width of a full vector register; LLVM splits it on machines with narrower ones.
REGISTER_BITS = 512

_I64 = ir.IntType(64)


def _tests(context, builder, signature, args):
    """<64 x i1> for each test: whether ``low <= key <= low + span``, given no wrap.

    The arguments are those of :func:`match_all`.
    """
    window, position, low, span = args
    for d, array_type in enumerate(signature.args[0]):
        array = builder.extract_value(window, d)
        keys = load(context, builder, array_type, array, position, GRANULE)
        above = builder.sub(keys, splat(builder, builder.extract_value(low, d), GRANULE))
        yield builder.icmp_unsigned(
            "<=", above, splat(builder, builder.extract_value(span, d), GRANULE)
        )


@intrinsic
def match_all(typingctx, window, position, low, span):
    """Mask of the granule at ``position`` in which every test holds.

    Parameters
    ----------
    window : tuple of D contiguous unsigned arrays, shape (>= position + 64,)
    position : int64
    low, span : tuple of D scalars of the arrays' dtype
        Test d is ``low[d] <= key <= low[d] + span[d]``.

    Returns
    -------
    uint64
        Bit k is the outcome for window position ``position + k``.
    """

    def codegen(context, builder, signature, args):
        mask = reduce(builder.and_, _tests(context, builder, signature, args))
        return builder.bitcast(mask, _I64)

    return types.uint64(window, types.int64, low, span), codegen


@intrinsic
def any_match(typingctx, window, position, low, span):
    """Whether some of several tuples matches somewhere in the chunk at ``position``.

    A mask per granule costs more than the tests themselves, so this one builds none: the distance
    above the last test's lower bound is minimised over the keys that pass the other tests, and
    compared with the span once per chunk.

    Parameters
    ----------
    window : tuple of D contiguous unsigned arrays, shape (>= position + CHUNK,)
    position : int64
    low, span : tuple of tuples of D scalars of the arrays' dtype
        Bounds as in :func:`match_all`, for each of the tuples.

    Returns
    -------
    boolean
    """

    def codegen(context, builder, signature, args):
        columns, bounds = signature.args[0], signature.args[2]
        tests, bits = len(columns), columns[0].dtype.bitwidth
        lanes = REGISTER_BITS // bits
        vector = ir.VectorType(ir.IntType(bits), lanes)
        least = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [vector, vector]),
            f"llvm.umin.v{lanes}i{bits}",
        )

        def splatted(source, t, d):
            scalar = builder.extract_value(builder.extract_value(source, t), d)
            return splat(builder, scalar, lanes)

        lows = [[splatted(args[2], t, d) for d in range(tests)] for t in range(len(bounds))]
        spans = [[splatted(args[3], t, d) for d in range(tests)] for t in range(len(bounds))]
        nearest = [ir.Constant(vector, [(1 << bits) - 1] * lanes)] * len(bounds)
        for offset in range(0, CHUNK, lanes):
            place = builder.add(args[1], _I64(offset))
            keys = [
                load(context, builder, columns[d], builder.extract_value(args[0], d), place, lanes)
                for d in range(tests)
            ]
            for t in range(len(bounds)):
                passed = [
                    builder.icmp_unsigned("<=", builder.sub(keys[d], lows[t][d]), spans[t][d])
                    for d in range(tests - 1)
                ]
                above = builder.sub(keys[-1], lows[t][-1])
                nearer = builder.call(least, [nearest[t], above])
                if passed:
                    nearer = builder.select(reduce(builder.and_, passed), nearer, nearest[t])
                nearest[t] = nearer
        within = [builder.icmp_unsigned("<=", nearest[t], spans[t][-1]) for t in range(len(bounds))]
        hits = reduce(builder.or_, within)
        some = builder.bitcast(hits, ir.IntType(lanes))
        return builder.icmp_unsigned("!=", some, ir.Constant(some.type, 0))

    return types.boolean(window, types.int64, low, span), codegen


@intrinsic
def match_each(typingctx, window, position, low, span):
    """One mask of a granule per test, a tuple of D uint64; :func:`match_all` gives their AND."""

    def codegen(context, builder, signature, args):
        masks = [builder.bitcast(t, _I64) for t in _tests(context, builder, signature, args)]
        return context.make_tuple(builder, signature.return_type, masks)

    result = types.UniTuple(types.uint64, len(window))
    return result(window, types.int64, low, span), codegen


@intrinsic
def fetch(typingctx, columns, position):
    """Ask for the granule at ``position`` of some arrays, so that it is in the cache later."""

    def codegen(context, builder, signature, args):
        for d, array_type in enumerate(signature.args[0]):
            array = builder.extract_value(args[0], d)
            data = context.make_array(array_type)(context, builder, array).data
            lanes = LINE_BYTES * 8 // array_type.dtype.bitwidth
            for lane in range(0, GRANULE, lanes):
                prefetch(builder, builder.gep(data, [builder.add(args[1], _I64(lane))]))
        return context.get_dummy_value()

    return types.none(columns, types.int64), codegen


@intrinsic
def row_of(typingctx, columns, row):
    """The tuple ``(columns[0][row], columns[1][row], ...)`` without bounds checks."""

    def codegen(context, builder, signature, args):
        items = []
        for d, array_type in enumerate(signature.args[0]):
            array = context.make_array(array_type)(
                context, builder, builder.extract_value(args[0], d)
            )
            pointer = builder.gep(array.data, [args[1]], inbounds=True)
            items.append(context.unpack_value(builder, array_type.dtype, pointer))
        return context.make_tuple(builder, signature.return_type, items)

    result = types.Tuple([column.dtype for column in columns])
    return result(columns, types.int64), codegen


@intrinsic
def nonzero_bytes(typingctx, flags, position):
    """Mask of the 64 bytes of ``flags`` (uint8 array) from ``position`` that are not 0."""

    def codegen(context, builder, signature, args):
        loaded = load(context, builder, signature.args[0], args[0], args[1], GRANULE)
        zero = ir.Constant(loaded.type, [0] * GRANULE)
        return builder.bitcast(builder.icmp_unsigned("!=", loaded, zero), _I64)

    return types.uint64(flags, types.int64), codegen


@intrinsic
def popcount(typingctx, mask):
    """Number of bits set in a uint64, as int64."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@intrinsic
def truncated_remainder(typingctx, a, b):
    """``a - trunc(a / b) * b`` of signed integers of one width; 0 where ``b`` is 0."""

    def codegen(context, builder, signature, args):
        a_value, b_value = args
        # The processor traps on x / 0 and on min / -1; in both cases the remainder by 1 is right.
        constant = ir.Constant(b_value.type, 1)
        shifted = builder.add(b_value, constant)
        unsafe = builder.icmp_unsigned("<=", shifted, constant)
        return builder.srem(a_value, builder.select(unsafe, constant, b_value))

    return a(a, a), codegen


@intrinsic
def truncated_quotient(typingctx, a, b):
    """``trunc(a / b)`` of signed integers of one width that hold it; ``a`` where ``b`` is 0."""

    def codegen(context, builder, signature, args):
        a_value, b_value = args
        # The processor traps on x / 0 and on min / -1.
        one, minus_one = ir.Constant(b_value.type, 1), ir.Constant(b_value.type, -1)
        unsafe = builder.icmp_unsigned("<=", builder.add(b_value, one), one)
        quotient = builder.sdiv(a_value, builder.select(unsafe, one, b_value))
        negated = builder.icmp_signed("==", b_value, minus_one)
        return builder.select(negated, builder.neg(a_value), quotient)

    return a(a, a), codegen


@intrinsic
def select(typingctx, condition, yes, no):
    """``yes if condition else no`` of one type, without a branch.

    Numba makes blocks of a branch, and a hundred of them take it minutes to compile.
    """
    if yes != no:
        return None

    def codegen(context, builder, signature, args):
        return builder.select(args[0], args[1], args[2])

    return yes(types.boolean, yes, yes), codegen


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
    def reduction(typingctx, values, position, mask):
        def codegen(context, builder, signature, args):
            loaded = load(context, builder, signature.args[0], args[0], args[1], GRANULE)
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

    return reduction


#: Sum of 64 signed integers, modulo 2**64.
masked_sum = _reduction("add", lambda bits: 0, widen=True)
#: Smallest and greatest of 64 signed integers; without any, the greatest and smallest of the type.
masked_min = _reduction("smin", lambda bits: (1 << (bits - 1)) - 1, widen=False)
masked_max = _reduction("smax", lambda bits: -(1 << (bits - 1)), widen=False)
