"""Streams on workers of which a checkpoint is kept, and how they go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock
from penstock import Checkpoint, Flow, Running
from tests.golden.kept import batches_of

#: Name of the only feed of each source.
FEED = "f"
#: How far rows may lie below the largest time before them.
DISORDER = 4
#: Seconds in which a rank must be heard of: more than any test takes.
_LEASE_S = 600.0

_NEAR = "b.t BETWEEN a.t - 6 AND a.t + 3"
_KEYED = f"a.k = b.k AND a.x < b.x AND {_NEAR}"
_THETA = f"abs(a.x - b.x) < 30 AND {_NEAR}"
_PAIR = "SELECT a.n AS i, b.n AS j, a.name AS name, b.f AS f FROM a {} JOIN b ON "
_TUMBLING = "a.t - a.t % 10"
_VALUES = (
    "count(*) AS n, sum(x) AS s, min(x) AS low, max(f) AS high, avg(x) AS mean, avg(f) AS share, "
    "min_by(name, n) AS first"
)


@dataclass(frozen=True)
class Stream:
    """A query over one source, ``a``, or two, ``a`` and ``b``.

    Parameters
    ----------
    query : str
    options : mapping
        Further arguments of :func:`penstock.stream`.
    """

    query: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sources(self) -> str:
        return "ab" if " b ON " in self.query else "a"

    def opened(self, workers: Any, folder: Path, name: str) -> Any:
        """Open the stream on the checkpoints that are kept of it in a folder."""
        schemas: dict[str, Any] = {
            source: batches_of(folder, source)[0].schema for source in self.sources
        }
        flow = Flow(running=Running(timeout_s=_LEASE_S))
        checkpoint = Checkpoint(folder / "streams" / name, every_s=_LEASE_S)
        given = schemas | self._relation(folder)
        how = {"disorder": DISORDER, "flow": flow, "checkpoint": checkpoint, **self._options}
        return penstock.stream(self.query, given, workers=workers, **how)

    def whole(self, folder: Path, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Return the query's rows on tables."""
        how = {name: value for name, value in self._options.items() if name != "unique"}
        return penstock.sql(self.query, {**tables, **self._relation(folder)}, **how)

    def _relation(self, folder: Path) -> dict[str, Any]:
        path = folder / "relations" / "by key"
        return {"c": penstock.relation(path)} if " c ON " in self.query else {}

    @property
    def _options(self) -> dict[str, Any]:
        return {"time": dict.fromkeys(self.sources, "t"), **self.options}


#: By name; those that ``ranks`` begins were written by ranks of MPI, others by processes.
STREAMS = {
    "pairs by key": Stream(_PAIR.format("") + _KEYED),
    "pairs of any condition": Stream(_PAIR.format("") + _THETA),
    "full join by key": Stream(_PAIR.format("FULL") + _KEYED),
    "left join of any condition": Stream(_PAIR.format("LEFT") + _THETA),
    "semi join": Stream("SELECT a.n AS i FROM a LEFT SEMI JOIN b ON " + _KEYED),
    "anti join": Stream("SELECT a.n AS i FROM a LEFT ANTI JOIN b ON " + _THETA),
    "folds of rows": Stream(
        "SELECT a.n AS i, count(*) AS k, min_by(b.n, abs(a.x - b.x)) AS near, sum(b.f) AS s "
        f"FROM a JOIN b ON {_THETA} GROUP BY a.n",
        {"unique": {"a": "n"}},
    ),
    "groups of pairs by key": Stream(
        f"SELECT a.k, {_TUMBLING} AS w, count(*) AS n, max(b.x) AS high, avg(b.f) AS mean "
        f"FROM a JOIN b ON {_KEYED} GROUP BY a.k, {_TUMBLING}"
    ),
    "groups of pairs of any condition": Stream(
        f"SELECT {_TUMBLING} AS w, count(*) AS n, sum(a.x + b.x) AS s FROM a JOIN b ON {_THETA} "
        f"GROUP BY {_TUMBLING}"
    ),
    "rows": Stream("SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.x < b.x", {"rows": 5}),
    "rows, full join": Stream(
        "SELECT a.n AS i, b.n AS j FROM a FULL JOIN b ON a.k = b.k", {"rows": {"a": 7, "b": 4}}
    ),
    "equal windows": Stream(
        "SELECT a.n AS i, b.n AS j FROM a LEFT JOIN b ON a.k = b.k "
        "AND window(a.t, 4) = window(b.t, 4)"
    ),
    "sessions of a join": Stream(
        "SELECT a.n AS i, b.n AS j FROM a FULL JOIN b ON a.k = b.k AND a.x < b.x "
        "AND session_window(a.t, 1) = session_window(b.t, 1)"
    ),
    "tumbling groups": Stream(
        f"SELECT k, t - t % 10 AS w, {_VALUES} FROM a GROUP BY k, t - t % 10"
    ),
    "session groups": Stream(
        f"SELECT k, session_window(t, 2).start AS w, {_VALUES} FROM a "
        "GROUP BY k, session_window(t, 2)"
    ),
    "groups of a look-up": Stream(
        f"SELECT c.label, {_TUMBLING} AS w, count(*) AS n, sum(a.x + c.weight) AS s "
        f"FROM a JOIN c ON a.k = c.k GROUP BY c.label, {_TUMBLING}"
    ),
    "ranks: full join by key": Stream(_PAIR.format("FULL") + _KEYED),
    "ranks: pairs of any condition": Stream(_PAIR.format("") + _THETA),
    "ranks: session groups": Stream(
        f"SELECT k, session_window(t, 2).start AS w, {_VALUES} FROM a "
        "GROUP BY k, session_window(t, 2)"
    ),
}


def goes_on(
    running: Any, given: Mapping[str, Sequence[pa.RecordBatch]], *, stops: bool = False
) -> list[pa.Table]:
    """Push what a stream has not taken yet, from one worker's side, and return the rows that leave.

    Parameters
    ----------
    running : RunningQuery
    given : mapping of source to sequence of batches
        All that this worker pushes, from the beginning.
    stops : bool
        Whether to leave checkpoints instead of ending the sources, and the rows of the last one
        in it.
    """
    found: list[pa.Table] = []
    for source in given:
        running.register(source, FEED)
    taken = {source: running.position(source, FEED) for source in given}
    for place in range(max(map(len, given.values()), default=0)):
        for source, parts in given.items():
            skipped = min(taken[source], parts[place].num_rows)
            taken[source] -= skipped
            if skipped < parts[place].num_rows:
                running.push(source, parts[place].slice(skipped), feed=FEED)
        if stops and place == 1:
            running.flush()
            found += _polled(running)
    if stops:
        running.flush()
        running.stop()
        return found
    last = running.close()
    return [*([] if last is None else [last[-1]]), *found, *_polled(running)]


def _polled(running: Any) -> list[pa.Table]:
    found = []
    while (polled := running.poll()) is not None:
        found.append(polled[-1])
    return found
