"""Members of a stream: their number, and the check that all members run the same.

The engine that places the processes gives each a :class:`Workers`: ``local``, MPI or Spark.
"""

from __future__ import annotations

import json
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.metadata import version

import pyarrow as pa

from penstock.errors import ProcessError
from penstock.expr.node import Expr, walk
from penstock.plan.group_query import GroupQuery
from penstock.plan.query import Aggregation, JoinQuery, Side

from ..channel.links import place
from ..store.checksums import checksum

#: Libraries whose versions decide how values are computed and how messages look.
_LIBRARIES = ("penstock", "pyarrow", "numpy", "numba")
#: Most characters of a value that an error shows.
_MOST_SHOWN = 300


class Workers(ABC):
    """Handle by which a worker knows its rank and exchanges bytes with all other workers.

    To add an engine, derive a class and implement this one method; see docs/streams/workers.md.

    Parameters
    ----------
    rank, size : int
        This worker is ``rank`` of ``size``, from 0 on.

    Attributes
    ----------
    place : str
        Workers of one place share memory; others reach each other over a network. By default a
        place is a namespace of processes of a host.

    Examples
    --------
    >>> class Alone(penstock.workers.Workers):
    ...     def exchange(self, mine):
    ...         return [mine]
    >>> alone = Alone(rank=0, size=1)
    >>> stream = penstock.stream(counts, schemas, time={"o": "t"}, workers=alone)
    >>> stream.push("o", orders)
    >>> stream.close().num_rows
    2
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.place = place()

    @abstractmethod
    def exchange(self, mine: bytes) -> list[bytes]:
        """Send bytes to all workers, and return the bytes of each, by rank.

        All workers call it equally often. It waits for all of them.

        Raises
        ------
        ProcessError
            One of them has ended, or did not call it in time.
        """


def facts(
    text: str,
    compiled: str,
    schemas: Mapping[str, pa.Schema],
    settings: Mapping[str, object],
) -> dict[str, str]:
    """Return facts that must be the same on all members, by name.

    Parameters
    ----------
    text, compiled : str
        The query, and its :func:`fingerprint`.
    schemas : mapping of table name to pyarrow.Schema
    settings : mapping of str to object
        Whatever else must not differ, by name.
    """
    return {
        "query": text,
        "compiled query": compiled,
        **{f"schema of {name}": schema_text(schema) for name, schema in schemas.items()},
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
        **{name: repr(value) for name, value in settings.items()},
    }


def as_bytes(of_member: Mapping[str, str]) -> bytes:
    """Return facts as bytes, in which form members exchange them."""
    return json.dumps(dict(of_member), sort_keys=True).encode()


def require_equal(of_ranks: Sequence[bytes], of_stream: bytes | None = None) -> None:
    """Compare the facts of all workers.

    Parameters
    ----------
    of_ranks : sequence of bytes
        Facts of each worker, by rank.
    of_stream : bytes, optional
        Facts of the process that has started them, compared with first.

    Raises
    ------
    ProcessError
        They differ; the message has both values.
    """
    expected = of_ranks[0] if of_stream is None else of_stream
    who = "worker 0" if of_stream is None else "the stream's process"
    first = json.loads(expected)
    for rank, one in enumerate(of_ranks):
        if one == expected:
            continue
        other = json.loads(one)
        name = next(n for n in {**first, **other} if first.get(n) != other.get(n))
        raise ProcessError(
            f"the workers do not run the same: {name} is {_shown(first.get(name))} on {who}, "
            f"but {_shown(other.get(name))} on worker {rank}; start all of them with the same "
            "query, schemas, settings and versions"
        )


def fingerprint(query: GroupQuery | JoinQuery) -> str:
    """Return a checksum of a compiled query: equal for texts that compute the same."""
    if isinstance(query, GroupQuery):
        lookup = query.lookup
        parts = [
            (query.source.table, query.source.unit, query.time_zone, sorted(query.scales)),
            *_rows_of(query.source),
            *_groups_of(query.aggregation),
            None if lookup is None else lookup.text,
        ]
    else:
        aggregation = query.aggregation
        parts = [
            [(side.table, side.unit, *_rows_of(side)) for side in query.sides],
            (query.time_zone, sorted(query.scales), query.kind, repr(query.window)),
            sorted((side, sorted(names)) for side, names in query.unique),
            _nodes(query.predicate),
            [(name, _nodes(expr)) for name, expr in query.select],
            None if aggregation is None else (aggregation.side, *_groups_of(aggregation)),
        ]
    return checksum(repr(parts).encode())


def _rows_of(side: Side) -> list[object]:
    return [_nodes(side.filter), None if side.time is None else _nodes(side.time)]


def _groups_of(aggregation: Aggregation) -> list[object]:
    return [
        [_nodes(key) for key in aggregation.keys],
        [
            (a.function, repr(a.type), *(None if e is None else _nodes(e) for e in (a.value, a.by)))
            for a in aggregation.aggregates
        ],
        [(name, _nodes(expr)) for name, expr in aggregation.select],
        _nodes(aggregation.having),
        repr(aggregation.session),
    ]


def _nodes(expr: Expr) -> list[object]:
    """Return the nodes of an expression, each once, with the places of its arguments."""
    places: dict[Expr, int] = {}
    written: list[object] = []
    for current in walk(expr):
        places[current] = len(written)
        args = [places[arg] for arg in current.args]
        written.append((current.op.value, args, repr(current.attr), repr(current.type)))
    return written


def schema_text(*schemas: pa.Schema) -> str:
    """Return the columns of some schemas as one text."""
    return "; ".join(
        ", ".join(f"{f.name} {f.type}{'' if f.nullable else ' not null'}" for f in schema)
        for schema in schemas
    )


def _shown(value: str | None) -> str:
    if value is None:
        return "not given"
    return value if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]}..."
