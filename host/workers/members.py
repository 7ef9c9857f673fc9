"""The members of a stream: how many there are, and that all of them run the same.

Whoever places processes gives each a :class:`Workers`: this machine's own (``local``), MPI, Spark.
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
from ..rows.checksums import checksum

#: What decides how values are computed and how messages look.
_LIBRARIES = ("penstock", "pyarrow", "numpy", "numba")
#: Characters of a value that an error shows.
_MOST_SHOWN = 300


class Workers(ABC):
    """What a worker knows of the others, whoever has started them.

    Another engine is one class with this one method; see docs/workers.md.

    Parameters
    ----------
    rank, size : int
        This worker is ``rank`` of ``size``, from 0 on.

    Attributes
    ----------
    place : str
        Workers of one place share memory; others reach each other over a network. By default a
        place is a namespace of processes of a host.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.place = place()

    @abstractmethod
    def exchange(self, mine: bytes) -> list[bytes]:
        """Give bytes to all workers, and return what each gave, by rank.

        All call it equally often, in the same order. It waits for all of them.

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
    """Return what must be the same on all members, by name.

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
    """Return facts in the form in which members exchange them."""
    return json.dumps(dict(of_member), sort_keys=True).encode()


def require_equal(given: Sequence[bytes], own: bytes | None = None) -> None:
    """Compare the facts of all workers, in the order of ranks.

    Parameters
    ----------
    own : bytes, optional
        Those of the process that has started them, to be compared with first.

    Raises
    ------
    ProcessError
        They differ; the message has both values.
    """
    expected = given[0] if own is None else own
    who = "worker 0" if own is None else "the stream's process"
    first = json.loads(expected)
    for rank, one in enumerate(given):
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
    """Return a checksum of what a compiled query computes, whatever its text looks like."""
    if isinstance(query, GroupQuery):
        lookup = query.lookup
        parts = [
            (query.source.table, query.source.unit, query.time_zone, sorted(query.scales)),
            *_rows_of(query.source),
            *_groups_of(query.aggregation),
            None if lookup is None else lookup.text,
        ]
    else:
        made = query.aggregation
        parts = [
            [(side.table, side.unit, *_rows_of(side)) for side in query.sides],
            (query.time_zone, sorted(query.scales), query.kind, repr(query.window)),
            sorted((side, sorted(names)) for side, names in query.unique),
            _of(query.predicate),
            [(name, _of(expr)) for name, expr in query.select],
            None if made is None else (made.side, *_groups_of(made)),
        ]
    return checksum(repr(parts).encode())


def _rows_of(side: Side) -> list[object]:
    return [_of(side.filter), None if side.time is None else _of(side.time)]


def _groups_of(made: Aggregation) -> list[object]:
    return [
        [_of(key) for key in made.keys],
        [
            (a.function, repr(a.type), *(None if e is None else _of(e) for e in (a.value, a.by)))
            for a in made.aggregates
        ],
        [(name, _of(expr)) for name, expr in made.select],
        _of(made.having),
        repr(made.session),
    ]


def _of(expr: Expr) -> list[object]:
    """Write the nodes of an expression, each once, with the places of its arguments."""
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
