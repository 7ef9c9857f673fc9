"""Random streams with disorder, and the joins they must give, from the definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("t", pa.int64()),
        pa.field("x", pa.int32()),
    ]
)

Row = tuple[int, int | None, int]

LEAST, MOST = -(1 << 63), (1 << 63) - 1
#: Where times begin: in the middle, at the first time that there is, shortly before the last.
STARTS = (0, 0, LEAST, MOST - 20)


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """The rows as a batch; there is at least one."""
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@dataclass
class Feed:
    """Rows of one source in order of arrival, cut into batches."""

    rows: list[Row]
    cuts: list[int]
    disorder: int

    @staticmethod
    def drawn(rng: Random, most: int, start: int = 0) -> Feed:
        """Rows from a time on; at the ends of int64 they crowd at the last time that there is."""
        disorder = rng.choice((0, 0, 2, 5))
        rows: list[Row] = []
        clock = start
        for number in range(rng.randint(0, most)):
            clock += rng.choice((0, 0, 0, 1, 1, 2, 9))
            # Most rows lie within the promise; some are far behind it.
            behind = rng.choice((0, 0, rng.randint(0, disorder), rng.randint(0, 12)))
            time = min(max(clock - behind, LEAST), MOST)
            time = None if rng.random() < 0.05 else time
            rows.append((number, time, rng.randint(0, 3)))
        cuts, left = [], len(rows)
        while left:
            cuts.append(rng.randint(1, min(left, 9)))
            left -= cuts[-1]
        return Feed(rows, cuts, disorder)

    def late(self) -> set[int]:
        """Rows below the promise that the rows before them made, one by one."""
        watermark = None
        found = set()
        for number, time, _ in self.rows:
            if time is None:
                continue
            if watermark is not None and time < watermark:
                found.add(number)
            watermark = (
                time - self.disorder if watermark is None else max(watermark, time - self.disorder)
            )
        return found

    def batches(self) -> list[pa.RecordBatch]:
        out, at = [], 0
        for count in self.cuts:
            out.append(batch_of(self.rows[at : at + count]))
            at += count
        return out

    def admitted(self) -> list[Row]:
        late = self.late()
        return [row for row in self.rows if row[1] is not None and row[0] not in late]


def time_join(
    left: Feed,
    right: Feed,
    before: int | None,
    after: int | None,
    matches: Callable[[int, int], bool],
) -> list[tuple[int, int]]:
    """Brute force over the admitted rows."""
    return sorted(
        (a, b)
        for a, ta, x in left.admitted()
        for b, tb, y in right.admitted()
        if (before is None or tb - ta >= -before)
        and (after is None or tb - ta <= after)
        and matches(x, y)
    )


def rows_join(
    arrivals: list[tuple[int, Row]], sizes: tuple[int, int], matches: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Each arrival (0 for left, and a row) meets the latest of the other side."""
    seen: tuple[list[Row], list[Row]] = ([], [])
    found = []
    for place, row in arrivals:
        for other in seen[1 - place][-sizes[1 - place] :]:
            a, b = (row, other) if place == 0 else (other, row)
            if matches(a[2], b[2]):
                found.append((a[0], b[0]))
        seen[place].append(row)
    return sorted(found)
