"""Lookups in a table of a PostgreSQL server: ``python -m bench.lookup.postgres [--quick]``.

All get the same batches of 65,536 calls, in turns, each of which is answered before the next one;
their rows are compared. The table has 2 million rows of 100 bytes, with ``--quick`` 200,000, in a
server on this machine that is made for the run. Ratios are by the clock, which is what a user sees:
the server works in other processes. CPU time of this process and of the server's stands beside.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock
from bench.command import Titles, run
from bench.lookup.scale import BATCH_ROWS, MB
from bench.lookup.turns import checksum
from bench.rows import Row
from penstock.errors import PenstockError
from penstock.sim.workloads import Calls
from tests.kit.postgres_server import PostgresServer, served_postgres

#: Times as fast as one question per batch, and as one per call.
TARGET_ANY, TARGET_SINGLE = 2.5, 10.0
#: Calls of each batch that are asked one by one; the rest would only take longer.
_SINGLE_ROWS = 1 << 12
_MAX_AGE = "60s"
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class PostgresScale:
    """Sizes of a run: rows of the table; memory; batches to warm up, and that are timed."""

    rows: int
    memory_bytes: int
    warm: int
    batches: int


FULL = PostgresScale(2_000_000, 128 * MB, 40, 12)
QUICK = PostgresScale(200_000, 13 * MB, 12, 6)


@dataclass(frozen=True)
class Spent:
    """Seconds of a call: by the clock, of this process, of the server's."""

    wall_s: float
    cpu_s: float
    server_s: float


class Asker(ABC):
    """Somebody who answers calls with rows of the table."""

    #: Calls of a batch that it answers.
    rows = BATCH_ROWS

    @abstractmethod
    def answer(self, batch: pa.RecordBatch) -> pa.Table:
        """Join a batch of calls: columns id, plan and name."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""


class Ours(Asker):
    """Our join, which keeps rows."""

    def __init__(self, server: PostgresServer, scale: PostgresScale) -> None:
        work = Calls(subscribers=scale.rows)
        location = server.address("subscribers", "id", max_age=_MAX_AGE)
        self._stream = penstock.stream(
            work.query(),
            {"calls": work.schemas["calls"], "subscribers": penstock.relation(location)},
            flow=penstock.Flow(memory_bytes=scale.memory_bytes),
        )

    def answer(self, batch: pa.RecordBatch) -> pa.Table:
        self._stream.push("calls", batch)
        self._stream.flush()
        return self._stream.poll()

    def hits(self) -> float:
        """Share of the calls whose key was in memory."""
        figures = self._stream.report().lookup
        assert figures is not None
        return figures.hits / max(1, figures.sought)

    def close(self) -> None:
        self._stream.close()


class _Connected(Asker):
    """Somebody with a connection of ADBC, as its user writes it."""

    def __init__(self, server: PostgresServer) -> None:
        from adbc_driver_postgresql import dbapi

        uri = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
        self._connection = dbapi.connect(uri, autocommit=True)
        self._cursor = self._connection.cursor()

    def close(self) -> None:
        self._cursor.close()
        self._connection.close()


class AnyPerBatch(_Connected):
    """One ``= ANY`` for the distinct keys of each batch; nothing is kept."""

    def answer(self, batch: pa.RecordBatch) -> pa.Table:
        callers = batch.column("subscriber").to_numpy()
        keys = np.unique(callers)
        asked = pa.ListArray.from_arrays(pa.array([0, len(keys)], pa.int32()), pa.array(keys))
        self._cursor.execute(
            "SELECT id, plan, name FROM subscribers WHERE id = ANY ($1)",
            parameters=pa.record_batch([asked], ["keys"]),
        )
        found = self._cursor.fetch_arrow_table().combine_chunks()
        order = np.argsort(found["id"].to_numpy())
        ids = found["id"].to_numpy()[order]
        place = np.minimum(np.searchsorted(ids, callers), len(ids) - 1)
        is_there = ids[place] == callers
        rows = pa.array(order[place[is_there]])
        calls = batch.column("id").to_numpy()[is_there]
        plans, names = found["plan"].take(rows), found["name"].take(rows)
        return pa.table({"id": calls, "plan": plans, "name": names})


class Single(_Connected):
    """A prepared statement for each call, as pgbench does it: one row, one answer."""

    rows = _SINGLE_ROWS

    def answer(self, batch: pa.RecordBatch) -> pa.Table:
        # The driver prepares once, and then asks for row after row, in C.
        calls = batch.select(["id", "subscriber"])
        calls = calls.set_column(0, "id", calls.column("id").cast(pa.int64()))
        self._cursor.execute(
            "SELECT $1::int8 AS id, plan, name FROM subscribers WHERE id = $2",
            parameters=calls,
        )
        return self._cursor.fetch_arrow_table()


class Report:
    """The rows of the table.

    Parameters
    ----------
    scale : PostgresScale
    on_row : callable
        Takes each row as it is known.
    """

    def __init__(self, scale: PostgresScale, on_row: Callable[[Row], None]) -> None:
        self._scale, self._on_row = scale, on_row
        self.rows: list[Row] = []

    def measure(self) -> None:
        """Measure all figures of the table."""
        scale = self._scale
        with served_postgres("shared_buffers=512MB") as server:
            _load(server, scale.rows)
            askers = {
                "ours": Ours(server, scale),
                "any": AnyPerBatch(server),
                "single": Single(server),
            }
            spent = _take_turns(askers, server, scale)
            hits = askers["ours"].hits()
            for one in askers.values():
                one.close()
        self._add(Row("calls whose key was in memory", f"{hits:.3f}", values=hits))
        texts = {
            "ours": f"ours, kept rows {_MAX_AGE} old at most",
            "any": "= ANY per batch",
            "single": "single lookups",
        }
        for name, text in texts.items():
            each = [median(getattr(s, part) for s in spent[name]) * 1e6 for part in _PARTS]
            shown = "{:.2f} us per call; CPU {:.2f}, server's {:.2f}".format(*each)
            self._add(Row(text, shown, values=[vars(one) for one in spent[name]]))
        for name, target in (("any", TARGET_ANY), ("single", TARGET_SINGLE)):
            wall, cpu, server_cpu = (_ratio(spent, name, part) for part in _PARTS)
            text = f"{wall:.1f}x by the clock; CPU {cpu:.1f}x, server's {server_cpu:.1f}x"
            row = Row(f"as fast as {texts[name]}", text, f">= {target:g}x", wall >= target)
            self._add(row)

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._on_row(row)

    def draw(self, out: Path) -> list[Path]:
        """There are no pictures."""
        return []


_PARTS = ("wall_s", "cpu_s", "server_s")


def _ratio(spent: dict[str, list[Spent]], name: str, part: str) -> float:
    """How many times our seconds: median over the batches."""
    pairs = zip(spent[name], spent["ours"], strict=True)
    return median(getattr(a, part) / max(getattr(b, part), 1e-9) for a, b in pairs)


def _take_turns(
    askers: dict[str, Asker], server: PostgresServer, scale: PostgresScale
) -> dict[str, list[Spent]]:
    """Let all answer batch after batch; seconds of each call.

    Raises
    ------
    PenstockError
        Two of them gave different rows.
    """
    work = Calls(
        seconds=(scale.warm + scale.batches + 1) * BATCH_ROWS / 1e6 * 1.2,
        rate=1e6,
        subscribers=scale.rows,
    )
    calls = work.batches("calls", rows=BATCH_ROWS)
    for _ in range(scale.warm):
        askers["ours"].answer(next(calls))
    spent: dict[str, list[Spent]] = {name: [] for name in askers}
    for number in range(scale.batches):
        batch = next(calls)
        answers: dict[str, pa.Table] = {}
        # Every other time backwards, so that nobody always follows the same one.
        for name in sorted(askers, reverse=number % 2 == 1):
            given = batch.slice(0, askers[name].rows)
            before = _spent_by(server)
            answers[name] = askers[name].answer(given)
            after = _spent_by(server)
            each = (b - a for a, b in zip(before, after, strict=True))
            spent[name].append(Spent(*(seconds / len(given) for seconds in each)))
        _compare(answers["ours"], answers["any"])
        first = batch.column("id").slice(0, _SINGLE_ROWS)
        few = answers["any"].filter(pc.is_in(answers["any"]["id"], first))
        _compare(few, answers["single"])
    return spent


def _compare(one: pa.Table, other: pa.Table) -> None:
    if checksum([one]) != checksum([other]):
        raise PenstockError("two of them gave different rows")


def _spent_by(server: PostgresServer) -> Sequence[float]:
    """Seconds so far, as of :class:`Spent`."""
    ticks = sum(map(_ticks, server.backends()))
    return time.perf_counter(), time.process_time(), ticks * _TICK_S


def _ticks(pid: int) -> int:
    """Of a process: user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _load(server: PostgresServer, rows: int) -> None:
    """Make the table."""
    for number, batch in enumerate(Calls(subscribers=rows).batches("subscribers")):
        server.load("subscribers", pa.Table.from_batches([batch]), create=number == 0)
    server.run("ALTER TABLE subscribers ADD PRIMARY KEY (id)", "VACUUM ANALYZE subscribers")


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.lookup.postgres", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200,000 rows, short rounds")
    options = parser.parse_args(argv)
    pa.set_cpu_count(2)
    scale = QUICK if options.quick else FULL
    titles = Titles(
        name="lookup.postgres",
        text=__doc__ or "",
        title=f"Lookups in a PostgreSQL table of {scale.rows:,} rows",
        baseline="",
    )
    return run(titles, lambda on_row: Report(scale, on_row), quick=options.quick, pictures=False)


if __name__ == "__main__":
    sys.exit(main())
