"""The nearest of many points, by boxes around runs of points that lie near each other.

Points are sorted by key, and within a key along a curve that visits near points one after the
other (Morton's, over shares of the points in place of coordinates, so that dense places get as many
steps as empty ones). Sixteen neighbours are a leaf; a box bounds the points of a leaf, a larger one
sixteen boxes, and these are measured together. A probe begins with the leaf at its own place on the
curve, which says how far away its nearest can be at most, and opens only boxes no further away.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from penstock.kept_code import kept

from ..device import intrinsics
from ..device.intrinsics import intrinsic, load, lowest_bit, splat
from ..windows import places
from ..windows.places import GROUP, ascending_places
from .cells import sort_by_cell
from .threads import each

#: Points of a leaf, and boxes below a box, and their power of two.
_SIZE, _FAN = 16, 4
#: Boxes that wait, at most: fewer than those of a block at each level of 2^32 points.
_DEEPEST = 128
_I32, _I64, _LANES = ir.IntType(32), ir.IntType(64), ir.VectorType(ir.DoubleType(), _SIZE)
#: Shares of the points by which each coordinate is measured, a power of two.
_SHARES = 256
#: Points, about, by which the shares are found.
_SAMPLE = 1 << 13
#: Bits of a place on the curve, and of a coordinate in it.
_BITS, _MOST_BITS = 62, 20
#: Bits of a coordinate beyond those that tell evenly spread points apart.
_SPARE_BITS = 3
#: Probes that a thread searches for at a time.
_PROBES = 1 << 13


class Points:
    """Points with keys, and boxes around them.

    Parameters
    ----------
    points : ndarray of float64, shape (n, d)
        Finite.
    keys : ndarray of int64, shape (n,)
        Numbers from 0 on; a probe finds points of its own key.
    tests : ndarray of int64, shape (n, t)
        A probe finds points whose values lie in its bounds.
    weights : ndarray of float64, shape (d,)
        Of each coordinate's difference, or of its square.
    squares : bool
        Whether the distance is a sum of squares; otherwise of absolute differences.
    root : bool
        Whether the distance is the root of that sum.
    threads : int
    """

    def __init__(
        self,
        points: np.ndarray,
        keys: np.ndarray,
        tests: np.ndarray,
        weights: np.ndarray,
        *,
        squares: bool,
        root: bool,
        threads: int = 1,
    ) -> None:
        self._norm = (squares, root)
        self._weights, self._threads = weights, threads
        most, dims = int(keys.max(initial=0)), points.shape[1]
        bits = (_BITS - most.bit_length()) // dims, len(points).bit_length() // dims + _SPARE_BITS
        self._bits = max(1, min(_MOST_BITS, *bits))
        self._shares = np.stack([_quantiles(column) for column in points.T])
        curve = self._places(points, keys)
        self._order = np.argsort(curve)
        self._curve = curve[self._order]
        points, self._tests = points[self._order], tests[self._order]
        self._begins = np.searchsorted(keys[self._order], np.arange(most + 2))
        self._points, self._boxes = _blocks(points).ravel(), _boxes(points)

    def nearest(
        self, probes: np.ndarray, keys: np.ndarray, low: np.ndarray, high: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find the nearest points of each probe; of equal distances those of the first points.

        Parameters
        ----------
        probes : ndarray of float64, shape (m, d)
            Finite.
        keys : ndarray of int64, shape (m,)
            Only points of the same key are found; -1 finds none.
        low, high : ndarray of int64, shape (m, t)
            Bounds of the tests' values, both included.
        count : int
            Most points per probe.

        Returns
        -------
        near : ndarray of int64, shape (m, count)
            Numbers of the points, the nearest first; beyond ``number`` anything.
        distance : ndarray of float64, shape (m, count)
        number : ndarray of int64, shape (m,)
            How many were found; fewer than ``count`` only if there are no more.
        """
        most = len(probes)
        near = np.empty((most, count), np.int64)
        distance = np.empty((most, count), np.float64)
        number = np.zeros(most, np.int64)
        last = len(self._begins) - 1
        start = self._begins[np.clip(keys, 0, last)]
        end = self._begins[np.clip(keys + 1, 0, last)]
        curve = self._places(probes, np.maximum(keys, 0))
        order = np.argsort(curve)
        seeds = np.empty(most, np.int64)
        seeds[order] = ascending_places(self._curve, curve[order], "left")
        lows, highs, firsts = self._boxes
        # Tuples whose length the compiler knows.
        dims, norm = (0,) * probes.shape[1], (0,) * (1 + self._norm[0] + self._norm[1])

        def work(at: int) -> None:
            _search(
                *(self._points, self._order, self._tests, lows, highs, firsts),
                *(start, end, seeds, probes.ravel(), low, high, order[at : at + _PROBES]),
                *(self._weights, dims, norm, count, near, distance, number),
            )

        steps = range(0, most, _PROBES)
        each(work, steps, self._threads if len(steps) > 1 else 1)
        return near, distance, number

    def _places(self, points: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Places on the curves of the keys."""
        curve = keys.copy()
        _interleave(points, self._shares, self._bits, curve)
        return curve


def rows_by_number(numbers: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Sort rows by numbers from 0 to ``most``; rows of one number stay in their order.

    Parameters
    ----------
    numbers : ndarray of int64, shape (n,)
        Rows with -1 are left out.
    most : int

    Returns
    -------
    begins : ndarray of int64, shape (most + 2,)
        The place of each number's first row, and the number of all.
    rows : ndarray of uint32
    """
    starts, rows = np.empty(most + 3, np.uint32), np.empty(len(numbers), np.uint32)
    sort_by_cell(numbers.astype(np.uint32), starts, rows)
    return starts[:-1].astype(np.int64), rows[: starts[-2]]


class SortedRuns:
    """Rows that are sorted by key, then value.

    Parameters
    ----------
    values : ndarray of int64
        By place.
    begins : ndarray of int64
        Place of the first row of key 0, 1, ..., and the number of all.
    """

    def __init__(self, values: np.ndarray, begins: np.ndarray) -> None:
        self._values, self._begins = _read_only(values), begins
        # Neighbours have near bounds: each search begins where the last one of its key ended.
        self._lasts = np.stack([begins, begins])

    def between(
        self, keys: np.ndarray, low: np.ndarray | None, high: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the rows of keys whose values lie between bounds, ``low <= value <= high``.

        Parameters
        ----------
        keys : ndarray of int64
            -1 has none.
        low, high : ndarray of int64, optional
            One for each of ``keys``; by default there is no bound.

        Returns
        -------
        start, end : ndarray of int64
            Places; there are none if ``end <= start``.
        """
        start, end = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        bounds = (_read_only(np.zeros(0, np.int64) if b is None else b) for b in (low, high))
        _between(self._values, self._begins, self._lasts, keys, *bounds, start, end)
        return start, end


def _read_only(values: np.ndarray) -> np.ndarray:
    """The array as columns of Arrow are, so that one form is compiled."""
    view = values.view()
    view.flags.writeable = False
    return view


@kept(places)
def _between(values, begins, lasts, keys, low, high, start, end):
    for row in range(len(keys)):
        key = keys[row]
        if key < 0:
            start[row] = end[row] = 0
            continue
        a, b = begins[key], begins[key + 1]
        least = np.iinfo(np.int64).min
        if len(low) and low[row] > least:
            a = lasts[0, key] = _place(values, a, b, lasts[0, key], low[row] - 1)
        if len(high):
            b = lasts[1, key] = _place(values, begins[key], b, lasts[1, key], high[row])
        start[row], end[row] = a, b


@kept(places)
def _place(values, a, b, at, bound):
    """The place behind the values up to a bound, sought from ``at`` on among those of [a, b)."""
    if at + GROUP <= b and (at == a or values[at - 1] <= bound):
        # Counted without branches: nothing predicts how many lie between two bounds.
        passed = np.uint64(0)
        for n in range(np.uint64(GROUP)):
            passed += np.uint64(values[np.uint64(at) + n] <= bound)
        a = at + np.int64(passed)
        if passed < GROUP:
            return a
        at = a
    step = 1
    # All before a are up to the bound, none from b on is.
    while a < b:
        at = min(max(at, a), b - 1)
        if values[at] <= bound:
            a, at = at + 1, at + step
        else:
            b, at = at, at - step
        step *= 2
        if step > 16:
            at = (a + b) >> 1
    return a


def _quantiles(values: np.ndarray) -> np.ndarray:
    """Bounds of shares of the values, of which the outer ones have all."""
    if not len(values):
        return np.zeros(_SHARES + 1)
    bounds = np.quantile(values[:: 1 + len(values) // _SAMPLE], np.linspace(0, 1, _SHARES + 1))
    bounds[0], bounds[-1] = values.min(), values.max()
    return bounds


@kept()
def _interleave(points, shares, bits, curve):
    most = (1 << bits) - 1
    parts = np.empty(len(shares), np.int64)
    for row in range(len(curve)):
        for column in range(len(shares)):
            value, bounds = points[row, column], shares[column]
            a, step = 0, _SHARES >> 1
            while step:  # without branches, since nothing predicts them
                a += step * (bounds[a + step] <= value)
                step >>= 1
            width = bounds[a + 1] - bounds[a]
            within = min(max((value - bounds[a]) / width, 0.0), 1.0) if width > 0 else 0.0
            scaled = (a + within) / (len(bounds) - 1) * (most + 1)
            parts[column] = min(most, np.int64(scaled))
        place = curve[row]
        for bit in range(bits - 1, -1, -1):
            for column in range(len(shares)):
                place = place << 1 | (parts[column] >> bit & 1)
        curve[row] = place


def _boxes(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least and greatest coordinates of boxes by blocks, and where each level begins."""
    lows: list[np.ndarray] = []
    highs: list[np.ndarray] = []
    low = high = points
    while not lows or len(low) > _SIZE:
        begins = np.arange(0, len(low), _SIZE)
        low, high = np.minimum.reduceat(low, begins), np.maximum.reduceat(high, begins)
        lows.append(_blocks(low))
        highs.append(_blocks(high))
    firsts = np.cumsum([0, *(len(one) for one in lows)])
    return np.concatenate(lows).ravel(), np.concatenate(highs).ravel(), firsts


def _blocks(points: np.ndarray) -> np.ndarray:
    """Points as (blocks, d, points of a block), which are compared together; zeros at the end."""
    blocks = np.zeros((-(-len(points) // _SIZE), _SIZE, points.shape[1]))
    blocks.reshape(-1, points.shape[1])[: len(points)] = points
    return np.ascontiguousarray(blocks.transpose(0, 2, 1))


@intrinsic
def _measured(typingctx, lows, highs, block, probes, row, weights, dims, norm, bound, fars):
    """Write how far a probe is from the boxes of a block, without the root; a point is a box.

    Returns the mask of those that are no further away than a bound, as uint64.
    """

    def codegen(context, builder, signature, args):
        def values(k, place, lanes=_SIZE):
            return load(context, builder, signature.args[k], args[k], place, lanes)

        def scalar(k, place):
            return splat(builder, builder.extract_element(values(k, place, 1), _I32(0)), _SIZE)

        zero = ir.Constant(_LANES, [0.0] * _SIZE)
        total = zero
        for q in range(dims.count):
            block, row = (
                builder.add(builder.mul(args[k], _I64(dims.count)), _I64(q)) for k in (2, 4)
            )
            block = builder.mul(block, _I64(_SIZE))
            low, high, value, gap = values(0, block), values(1, block), scalar(3, row), zero
            for less in (builder.fsub(low, value), builder.fsub(value, high)):
                gap = builder.select(builder.fcmp_ordered(">", less, gap), less, gap)
            gap = builder.fmul(gap, gap) if norm.count > 1 else gap
            total = builder.fadd(total, builder.fmul(scalar(5, _I64(q)), gap))
        data = context.make_array(fars)(context, builder, args[9]).data
        builder.store(total, builder.bitcast(data, _LANES.as_pointer()), align=8)
        mask = builder.fcmp_ordered("<=", total, splat(builder, args[8], _SIZE))
        return builder.zext(builder.bitcast(mask, ir.IntType(_SIZE)), _I64)

    numbers = lows, highs, types.int64, probes, types.int64, weights, dims, norm
    return types.uint64(*numbers, types.float64, fars), codegen


@kept(intrinsics)
def _search(
    points, numbers, tests, lows, highs, firsts, start, end, seeds, probes, low, high, order,
    weights, dims, norm, count, near, distance, number,
):  # fmt: skip
    """Fill in the nearest points of some probes: a heap of the nearest so far, largest on top.

    ``len(norm)`` is 1 for absolute differences, 2 for squares, 3 for their root.
    """
    stack, nears, fars = np.empty((_DEEPEST, 2), np.int64), np.empty(_DEEPEST), np.empty(_SIZE)
    one = np.uint64(1)
    for p in order:
        s, e = start[p], end[p]
        if s >= e:
            continue
        d, j, n = distance[p], near[p], 0
        bound = np.inf
        # First the leaf at the probe's place.
        first = max(s, min(seeds[p], e - 1)) >> _FAN
        stack[0, 0], stack[0, 1], nears[0] = len(firsts) - 1, 0, 0.0
        stack[1, 0], stack[1, 1], nears[1] = 0, first, 0.0
        depth, is_first = 2, True
        while depth > 0:
            depth -= 1
            at, box = stack[depth, 0], stack[depth, 1]
            if nears[depth] > bound or (at == 0 and box == first and not is_first):
                continue
            is_first = False
            base, shift = box << _FAN, _FAN * at
            a, b = max(s >> shift, base), min(((e - 1) >> shift) + 1, base + _SIZE)
            if at > 0:
                block = firsts[at - 1] + box
                mask = _measured(lows, highs, block, probes, p, weights, dims, norm, bound, fars)
                # Boxes that are nearer lie on top.
                begin = depth
                mask &= (one << np.uint64(b - base)) - (one << np.uint64(a - base))
                while mask:
                    k = lowest_bit(mask)
                    mask &= mask - one
                    child, gap, c = base + k, fars[k], depth
                    while c > begin and nears[c - 1] < gap:
                        stack[c, 0], stack[c, 1] = stack[c - 1, 0], stack[c - 1, 1]
                        nears[c] = nears[c - 1]
                        c -= 1
                    stack[c, 0], stack[c, 1], nears[c] = at - 1, child, gap
                    depth += 1
                continue
            mask = _measured(points, points, box, probes, p, weights, dims, norm, bound, fars)
            mask &= (one << np.uint64(b - base)) - (one << np.uint64(a - base))
            while mask:
                k = lowest_bit(mask)
                mask &= mask - one
                i, far = base + k, fars[k]
                if far > bound:
                    continue
                passes = True
                for t in range(tests.shape[1]):
                    value = tests[i, t]
                    passes = passes and low[p, t] <= value <= high[p, t]
                if not passes:
                    continue
                if len(norm) == 3:
                    far = np.sqrt(far)
                place = numbers[i]
                if n < count:
                    c = n
                    n += 1
                    while c > 0:
                        up = (c - 1) >> 1
                        if d[up] > far or (d[up] == far and j[up] > place):
                            break
                        d[c], j[c] = d[up], j[up]
                        c = up
                    d[c], j[c] = far, place
                elif far < d[0] or (far == d[0] and place < j[0]):
                    _sink(d, j, n, far, place)
                if n == count:
                    bound = d[0]
                    if len(norm) == 3:
                        # Of sums a little apart the roots may be equal.
                        bound = bound * bound * (1 + 2.0**-48)
        for size in range(n - 1, 0, -1):
            far, place = d[size], j[size]
            d[size], j[size] = d[0], j[0]
            _sink(d, j, size, far, place)
        number[p] = n


@kept()
def _sink(d, j, size, far, place):
    """Put an entry in the place of the top of a heap."""
    c = 0
    while True:
        child = 2 * c + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (d[other] > d[child] or (d[other] == d[child] and j[other] > j[child])):
            child = other
        if not (d[child] > far or (d[child] == far and j[child] > place)):
            break
        d[c], j[c] = d[child], j[child]
        c = child
    d[c], j[c] = far, place
