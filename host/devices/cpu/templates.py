"""The modules around generated steps: one for pairs, one for aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

_HEAD = '''"""Generated kernel: {title}"""

import numpy as np
from numba import njit

from penstock.host.device.search import HIGH, LOW, ORDER, ROW, SIZES, START, STOP, WHOLE
from penstock.host.device.search import next_ranges
from penstock.host.devices.cpu.fold_loops import EXISTS, NEAREST, add_floats, fold, order_key
from penstock.host.devices.cpu.loops import COUNT, EDGE, FIRST, LAST, POSITION, ROOM
from penstock.host.devices.cpu.loops import emit, inside, next_tile
from penstock.host.devices.cpu.searching import EVALUATIONS, emit_positions, in_range
from penstock.host.devices.cpu.searching import nearest_position
from penstock.host.devices.cpu.vector import GRANULE, nonzero_bytes, select, truncated_quotient
from penstock.host.devices.cpu.vector import truncated_remainder
{imports}


@njit(nogil=True)
def fill(stream, window, i, position, flags{values}):
{stream}
{slices}
    for k in range(len(flags)):
{body}


'''

_PAIRS = """@njit(nogil=True)
def scan(stream, window, flags, i, start, end, room, out_i, out_j, count):
    position = start & ~(GRANULE - 1)
    while position < end:
        granules = min((end - position + GRANULE - 1) // GRANULE, len(flags) // GRANULE)
        fill(stream, window, i, position, flags[: granules * GRANULE])
        for g in range(granules):
            mask = nonzero_bytes(flags, g * GRANULE)
            if mask:
                mask = inside(mask, position, start, end)
                count = emit(mask, i, position, room, out_i, out_j, count)
                if count < 0:
                    return count
            position += GRANULE
    return count


@njit(nogil=True)
def run(stream, window, start, end, walk, flags, out_i, out_j):
    count, room = 0, walk[ROOM]
    while next_tile(walk, start, end, count):
        count = walk[COUNT]
        for i in range(walk[FIRST], walk[LAST]):
            a, b = max(start[i], walk[POSITION]), min(end[i], walk[EDGE])
            if a < b:
                count = scan(stream, window, flags, i, a, b, room, out_i, out_j, count)
                if count < 0:
                    break


@njit(nogil=True)
def search(stream, window, flags, walk, outcome, out_i, out_j):
    row, begin, end, whole = walk[ROW], walk[LOW], walk[HIGH], walk[WHOLE]
    start, stop, order = walk[START], walk[STOP], walk[ORDER]
    first, rows = walk[SIZES][0], walk[SIZES][1]
    while True:
        ranges = next_ranges(*walk)
        if not ranges:
            return
        for k in range(ranges):
            i, place = np.int64(row[k]), begin[k]
            base = place // rows * rows
            while place < end[k]:
                granules = min((end[k] - place + GRANULE - 1) // GRANULE, len(flags) // GRANULE)
                fill(stream, window, i, place, flags[: granules * GRANULE])
                for g in range(granules):
                    mask = nonzero_bytes(flags, g * GRANULE)
                    if mask:
                        mask = inside(mask, place, place, end[k])
                        if not whole[k]:
                            mask = in_range(mask, place, order, first + base, start[i], stop[i])
                        if not emit_positions(mask, i, place, order, base, outcome, out_i, out_j):
                            outcome[EVALUATIONS] += place - begin[k]
                            return
                    place += GRANULE
            outcome[EVALUATIONS] += end[k] - begin[k]
"""

_FOLDS = """@njit(nogil=True)
def scan(stream, window, flags, values, i, start, end, rule, count, value, extra):
    position = start & ~(GRANULE - 1)
    while position < end:
        granules = min((end - position + GRANULE - 1) // GRANULE, len(flags) // GRANULE)
        fill(stream, window, i, position, flags[: granules * GRANULE]{values})
        for g in range(granules):
            mask = nonzero_bytes(flags, g * GRANULE)
            if mask:
                mask = inside(mask, position, start, end)
                if mask:
                    {fold}(mask, {held}, g * GRANULE, position, i, rule, count, value, extra)
            position += GRANULE
        if rule == EXISTS and count[i] > 0:
            return


@njit(nogil=True)
def run(stream, window, start, end, walk, flags, values, rule, count, value, extra):
    while next_tile(walk, start, end, 0):
        for i in range(walk[FIRST], walk[LAST]):
            a, b = max(start[i], walk[POSITION]), min(end[i], walk[EDGE])
            if a < b and not (rule == EXISTS and count[i] > 0):
                scan(stream, window, flags, values, i, a, b, rule, count, value, extra)


@njit(nogil=True)
def search(stream, window, flags, values, walk, rule, count, value, extra):
    row, begin, end, whole = walk[ROW], walk[LOW], walk[HIGH], walk[WHOLE]
    start, stop, order = walk[START], walk[STOP], walk[ORDER]
    first, rows = walk[SIZES][0], walk[SIZES][1]
    evaluations = 0
    while True:
        ranges = next_ranges(*walk)
        if not ranges:
            return evaluations
        for k in range(ranges):
            i, place = np.int64(row[k]), begin[k]
            base = place // rows * rows
            evaluations += end[k] - place
            while place < end[k] and not (rule == EXISTS and count[i] > 0):
                granules = min((end[k] - place + GRANULE - 1) // GRANULE, len(flags) // GRANULE)
                fill(stream, window, i, place, flags[: granules * GRANULE]{values})
                for g in range(granules):
                    mask = nonzero_bytes(flags, g * GRANULE)
                    if mask:
                        mask = inside(mask, place, place, end[k])
                        if not whole[k]:
                            mask = in_range(mask, place, order, first + base, start[i], stop[i])
                    if mask and rule == NEAREST:
                        nearest_position(
                            mask, {held}, g * GRANULE, place, order, base, i, count, value, extra
                        )
                    elif mask:
                        {fold}(mask, {held}, g * GRANULE, place, i, rule, count, value, extra)
                    place += GRANULE
"""


class FoldKind(Enum):
    """Kind of value that a generated loop folds, and how the loop holds it."""

    #: Nothing: the matches are counted.
    NONE = "none"
    #: Integers as int64.
    INTEGER = "integer"
    #: Floats as int64 keys of the same order.
    ORDER = "order"
    #: Floats as float64, to be added.
    FLOAT = "float"


def module_source(
    title: str,
    stream: Sequence[str],
    slices: Sequence[str],
    body: Sequence[str],
    folded: FoldKind | None,
    imports: str = "",
) -> str:
    """Source of a module with a function ``run``.

    Parameters
    ----------
    title : str
    stream, slices, body : sequence of str
        Statements per stream tuple, slices of the window, statements per pair.
    folded : FoldKind or None
        None for pairs.
    imports : str
        What the statements need besides.
    """
    has_values = folded not in (None, FoldKind.NONE)
    head = _HEAD.format(
        title=title,
        imports=imports,
        stream="\n".join(f"    {line}" for line in stream),
        slices="\n".join(f"    {line}" for line in slices),
        body="\n".join(f"        {line}" for line in body),
        values=", values" if has_values else "",
    )
    if folded is None:
        return head + _PAIRS
    return head + _FOLDS.format(
        values=", values" if has_values else "",
        fold="add_floats" if folded is FoldKind.FLOAT else "fold",
        held="values" if has_values else "None",
    )
