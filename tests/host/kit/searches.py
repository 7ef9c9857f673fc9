"""Searches for tests: random cells and orders, what a search should find, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.host.device.base import Folds, Kernel, Pause, Result
from penstock.host.device.search import (
    SPARE_ROWS,
    Boxes,
    OrderedRows,
    RangeWalk,
    SearchPiece,
    SearchTask,
)
from penstock.host.prune.cells import NO_CELL, Axis, Grid
from penstock.host.prune.ordering import SlabOrdering
from penstock.program import BandProgram, Mode, null_code
from tests.host.kit.tasks import TIMEOUT_S, Join, expected

#: NULL among cells that do not follow from keys.
_NULL = 1 << 20


@dataclass(frozen=True)
class Search:
    """A join whose window lies in the order of cells from some position on.

    Parameters
    ----------
    join : Join
        Its ranges may lie in any order, and partly or wholly outside the ordered rows.
    grid : Grid
    cells : ndarray of uint32
        Cell of each window row.
    ordered : OrderedRows
    boxes : Boxes
    """

    join: Join
    grid: Grid
    cells: np.ndarray
    ordered: OrderedRows
    boxes: Boxes

    def task(self, piece: SearchPiece, mode: Mode = Mode.PAIRS, room: int = 1 << 20) -> SearchTask:
        """The task of a piece."""
        floor = None if piece.floor is None else piece.floor - self.ordered.first
        stream, boxes = piece.entries(self.join.stream), self.boxes.pick(piece.rows)
        return SearchTask(stream, piece.start, piece.end, room, self.ordered, boxes, mode, floor)

    @property
    def piece(self) -> SearchPiece:
        """All tuples."""
        rows = np.arange(len(self.join.start), dtype=np.uint32)
        return SearchPiece(rows, self.join.start, self.join.end, 1.0, self.join.evaluations)

    def visited(self) -> np.ndarray:
        """Whether each tuple visits each window row's cell and key, bool of shape (n, window)."""
        inner, boxes = np.int64(self.grid.inner), self.boxes
        outer_of, inner_of = np.divmod(self.cells.astype(np.int64), inner)
        low, high = boxes.outer_low[:, None], boxes.outer_high[:, None]
        seen = (low <= outer_of) & (outer_of <= high)
        low, high = boxes.inner_low[:, None], boxes.inner_high[:, None]
        seen &= (low <= inner_of) & (inner_of <= high) & (self.cells != NO_CELL)
        if self.grid.keyed:
            for d in self.grid.hashed:
                seen &= self.join.stream[2 * d][:, None] == self.join.window[d]
        position = np.arange(len(self.cells))
        return seen & (self.ordered.first <= position) & (position < self.ordered.end)

    def admitted(self) -> np.ndarray:
        """Pairs that are visited and lie in the tuples' ranges, bool of shape (n, window)."""
        position = np.arange(len(self.cells))
        start, end = self.join.start[:, None], self.join.end[:, None]
        return self.visited() & (start <= position) & (position < end)

    def pairs(self) -> np.ndarray:
        """What the search should find: int64 of shape (m, 2), sorted, as a device gives it."""
        found = expected(self.join)
        found = found[self.admitted()[found[:, 0], found[:, 1]]]
        return found - [0, self.ordered.first]


def grid_of(
    rng: np.random.Generator,
    program: BandProgram,
    codes: Sequence[np.ndarray],
    equal: Sequence[int] = (),
    most: int = 12,
) -> Grid:
    """A random grid over tests that each match passes; ``equal`` says which are equalities."""
    common = [d for d in range(program.tests) if all(c >> d & 1 for c in program.cubes)]
    hashed = tuple(d for d in common if d in equal and rng.random() < 0.7)
    others = [d for d in common if d not in hashed]
    taken = rng.permutation(others)[: rng.integers(0, 3)].tolist() if others else []
    axes = tuple(axis_of(rng, d, codes[d], int(rng.integers(1, most))) for d in taken)
    bits = int(rng.integers(0, 4)) if hashed else 0
    keyed = len(hashed) > 0 and rng.random() < 0.7
    return Grid(hashed, bits, axes, null_code(program.key_bits), keyed)


def axis_of(rng: np.random.Generator, test: int, codes: np.ndarray, buckets: int) -> Axis:
    """A random axis: anything whose table never falls."""
    low, high = (int(codes.min()), int(codes.max())) if len(codes) else (0, 0)
    base = [0, low, (low + high) // 2, high][rng.integers(0, 4)]
    entries = int(rng.integers(1, 40))
    shift = max((high - base).bit_length() - int(rng.integers(0, 8)), 0)
    table = np.sort(rng.integers(0, buckets, entries)).astype(np.uint32)
    return Axis(test, base, min(shift, 63), table, buckets)


def ordered_rows(
    columns: Sequence[np.ndarray],
    codes: Sequence[np.ndarray],
    grid: Grid,
    first: int,
    end: int,
    rows: int,
    threads: int = 1,
) -> OrderedRows:
    """Window rows ``[first, end)`` in the order of cells, with more of them behind."""

    def read(low: int, high: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        places = np.arange(low, high)
        return [places], [column[low:high] for column in codes]

    ordering = SlabOrdering(rows, first, grid)
    ordering.extend(end, read, threads)
    found = ordering.ordered()
    positions = found.columns[0][: found.count] if found.count else np.zeros(0, np.int64)
    return replace(found, columns=[_taken(column, positions) for column in columns])


def _taken(column: np.ndarray, places: np.ndarray) -> np.ndarray:
    """A column in an order, with spare rows of some of its values."""
    spare = column[np.arange(SPARE_ROWS) * 7 % len(column)]
    return np.concatenate([column[places], spare])


def searched(
    rng: np.random.Generator, join: Join, *, most_cells: int = 12, rows: int | None = None
) -> Search:
    """A random order of a join's window, and boxes.

    The cells of a band program mostly follow from its keys. Those of others are any cells, and
    the boxes any boxes: then a search finds the matches in the cells that it visits.
    """
    window = join.window_rows
    join = _anywhere(rng, join)
    program = join.program
    if isinstance(program, BandProgram) and rng.random() < 0.7:
        equal = [d for d in range(program.tests) if rng.random() < 0.4]
        for d in equal:
            join.stream[2 * d + 1] = join.stream[2 * d]
        codes = join.window[: program.tests]
        grid = grid_of(rng, program, codes, equal, most_cells)
        boxes = grid.boxes(join.stream)
    else:
        outer, inner = (int(rng.integers(1, most_cells)) for _ in range(2))
        if rng.random() < 0.1:
            inner = window  # each row a cell of its own, or nearly
        codes = [rng.integers(0, n + (rng.random() < 0.3), window) for n in (outer, inner)]
        codes = [
            np.where(own == n, _NULL, own) for own, n in zip(codes, (outer, inner), strict=True)
        ]
        codes = [own.astype(np.uint32) for own in codes]
        sizes = enumerate((outer, inner))
        axes = tuple(Axis(k, 0, 0, np.arange(n, dtype=np.uint32), n) for k, n in sizes)
        grid = Grid((), 0, axes, _NULL)
        boxes = Boxes(*_box(rng, len(join.start), outer), *_box(rng, len(join.start), inner))
    rows = rows or int(rng.choice([1, 2, 7, 64, 200, max(window, 1)]))
    first = int(rng.choice([0, rows * (window // rows // 3)]))
    end = window - int(rng.integers(0, max((window - first) // 3, 1)))
    ordered = ordered_rows(join.window, codes, grid, first, end, rows, int(rng.integers(1, 3)))
    return Search(join, grid, grid.cells_of(codes), ordered, boxes)


def _box(rng: np.random.Generator, rows: int, buckets: int) -> tuple[np.ndarray, np.ndarray]:
    low = rng.integers(0, buckets, rows)
    high = np.minimum(low + rng.integers(0, buckets, rows), buckets - 1)
    if rng.random() < 0.3:
        low, high = low * 0, high * 0 + buckets - 1
    return low.astype(np.uint32), high.astype(np.uint32)


def _anywhere(rng: np.random.Generator, join: Join) -> Join:
    """The join with its tuples in any order, and ranges beyond the window."""
    by = rng.permutation(len(join.start)) if rng.random() < 0.7 else slice(None)
    start, end = join.start[by].copy(), join.end[by].copy()
    out = rng.random(len(start)) < 0.1
    start[out & (start == 0)] = -7
    end[out & (end == join.window_rows)] += 1000
    return Join(join.program, list(join.window), [c[by] for c in join.stream], start, end)


def run_pairs(
    kernel: Kernel, search: Search, room: int, check: Callable[[Result], None] = lambda _: None
) -> tuple[np.ndarray, int, int]:
    """Pairs of a search run to its end, sorted; its evaluations and the number of its tasks."""
    parts, evaluations, tasks = [], 0, 0
    piece = search.piece
    while True:
        task = search.task(piece, room=room)
        is_here = tasks % 2 == 0
        result = kernel.run(None, task) if is_here else kernel.submit(None, task).result(TIMEOUT_S)
        tasks += 1
        assert len(result.i) == len(result.j) <= room
        assert result.i.dtype == result.j.dtype == np.uint32
        check(result)
        parts.append(np.stack([piece.rebased(result.i), result.j], axis=1).astype(np.int64))
        evaluations += result.counters["evaluations"]
        if result.pause is None:
            break
        i0, i1, p = result.pause.i0, result.pause.i1, result.pause.p
        assert i1 == i0 + 1 <= task.rows
        assert not (result.i > i0).any()
        assert len(result.i) > 0  # any room makes progress
        (rest,) = piece.remaining(Pause(i0, i1, p + search.ordered.first))
        assert isinstance(rest, SearchPiece)
        piece = rest
    pairs = np.concatenate(parts)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], evaluations, tasks


def run_folds(kernel: Kernel, search: Search, mode: Mode) -> tuple[Folds, int]:
    """Aggregates of a search and its evaluations, checked for what every mode promises."""
    result = kernel.submit(None, search.task(search.piece, mode, 64)).result(TIMEOUT_S)
    assert result.pause is None
    assert len(result.i) == len(result.j) == 0
    assert result.folds is not None
    return result.folds, result.counters["evaluations"]


def walked(search: Search, **options: int) -> list[tuple[int, int, int, bool]]:
    """The ranges of places that a search visits, with the number of their tuple."""
    join, ordered = search.join, search.ordered
    walk = RangeWalk(ordered, search.boxes, join.start, join.end, None, **options)  # type: ignore[arg-type]
    found: list[tuple[int, int, int, bool]] = []
    while count := walk.next():
        each = (walk.row, walk.low, walk.high, walk.whole)
        found += zip(*(own[:count].tolist() for own in each), strict=True)
    return found


def position_at(ordered: OrderedRows) -> np.ndarray:
    """Position of the row at each place, counted from the first one."""
    places = np.arange(ordered.count)
    return places // ordered.rows * ordered.rows + ordered.order.astype(np.int64)
