"""``penstock.sql``: queries over tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.host.device.base import Device
from penstock.host.device.operator import Operator
from penstock.host.execute.running import Running
from penstock.host.join.stream import Span
from penstock.host.prune.sizes import Pruning, pruning_sizes

from .. import arguments
from ..errors import UsageError, memory_explained
from ..query.options import QueryOptions, Rows, Within
from ..user_functions import Udf
from ..uses import TABLES, Entrance, QueryKind, Way
from .received import TableLike, as_tables, check_devices, check_workers
from .table_query import How, TableQuery


def sql(
    query: str,
    tables: Mapping[str, TableLike],
    *,
    time: Mapping[str, str] | None = None,
    rows: Rows | None = None,
    within: Within | None = None,
    params: Mapping[str, Any] | None = None,
    scale: Mapping[str, int] | None = None,
    time_zone: str | None = None,
    ansi: bool = False,
    disorder: Span | Mapping[str, Span] | None = None,
    device: str | Device | Sequence[Device] | None = None,
    operator: str | None = None,
    pruning: bool | Pruning | None = None,
    running: Running | None = None,
    memory_bytes: int | None = None,
    workers: int | None = None,
    functions: Mapping[str, Udf] | None = None,
) -> pa.Table:
    """Join two tables over a time or ROWS window, or a table with a relation, or group a table.

    Parameters
    ----------
    query : str
        ``SELECT ... FROM a JOIN b ON ...``, or ``SELECT ... FROM a GROUP BY ...``, in Spark's SQL;
        see docs/joins/sql.md.
    tables : mapping of name to table
        Arrow data, a path to a Parquet, CSV or Arrow file, or any object with
        ``__arrow_c_stream__``; some may be a :func:`penstock.relation`, which needs no window.
    time : mapping of alias to column, optional
        Event-time column of each side; ``"column:unit"`` gives an integer column a unit.
    rows : int or mapping of alias to int, optional
        ROWS window.
    within : int or timedelta, optional
        Time window of this size before and after.
    params : mapping, optional
        Values of the names in the query that are not columns.
    scale : mapping of "table.column" to int, optional
        Decimal digits of float columns that hold fixed-point numbers.
    time_zone : str, optional
        Zone of the session, as Spark's ``spark.sql.session.timeZone``. Literals and timestamps
        without a zone are read in it, days begin in it, and computed instants are given in it. By
        default UTC, and computed instants are given as timestamps without a zone.
    ansi : bool
        Whether what Spark's ANSI mode raises is a :class:`DataError`: a division by 0, and
        arithmetic beyond Spark's types. By default these are NULL, and exact (docs/joins/sql.md).
    disorder : int, timedelta or mapping of alias to either, optional
        How far out of order rows may be; a row further behind is an error. By default tables may
        be in any order.
    device : str, Device or sequence of Device, optional
        "cpu", the default, "amaranth", or an open device. All lanes of all devices share the work,
        and what fails on one is tried on another. Groups of one table need none.
    operator : str, optional
        "range", the default, or "window" for the window-join operator: ROWS windows and band form;
        see docs/hardware/window-operator.md.
    pruning : bool or Pruning, optional
        Whether the host leaves out pairs that cannot match, before the device sees
        them (range joins only), as it does by default. The result is the same.
    running : Running, optional
        Order of the rows, policy and limits of tasks; its ``pruning`` is not used.
    memory_bytes : int, optional
        With a relation: memory for its pages, the rows of it that are kept, and rows that wait;
        128 MiB by default. The table itself and the result are not counted.
    functions : mapping of name to function, optional
        Made by :func:`penstock.udf`, by the names that the query calls them.
    workers : int, optional
        Processes that group one table together; by default this process does.

    Returns
    -------
    pyarrow.Table
        The joined rows, or the groups of a query with aggregates; in no particular order, unless
        ``running`` asks for one.

    Raises
    ------
    PenstockError
        One of its leaves; the message says what is wrong, where, and what to do. So is an option
        that the query does not use.

    Examples
    --------
    >>> import penstock, pyarrow as pa
    >>> rides = pa.table({"id": [1, 2], "t": [10, 50], "x": [0, 9]})
    >>> cabs = pa.table({"cab": [7, 8], "t": [12, 90], "x": [2, 9]})
    >>> penstock.sql(
    ...     "SELECT id, cab FROM rides r JOIN cabs c ON abs(r.x - c.x) < 5 "
    ...     "AND c.t BETWEEN r.t - 5 AND r.t + 5",
    ...     {"rides": rides, "cabs": cabs}, time={"r": "t", "c": "t"},
    ... ).to_pylist()
    [{'id': 1, 'cab': 7}]
    """
    ways: list[QueryKind | Way] = [] if workers is None else [Way.WORKERS]
    if operator == "window":
        ways.append(QueryKind.OPERATOR)
    entrance = Entrance.from_call(TABLES, sql, locals(), *ways)
    options = QueryOptions.from_call(locals(), entrance)
    device = "cpu" if device is None else device
    pruning = True if pruning is None else pruning
    chosen = _operator(operator)
    arguments.mapping()("tables", tables)
    arguments.optional(arguments.one_or_each(arguments.span))("disorder", disorder)
    check_devices(device)
    arguments.optional(arguments.instance(Running, "a penstock.Running"))("running", running)
    sizes = pruning_sizes(pruning)
    check_workers(workers)
    arguments.optional(arguments.whole)("memory_bytes", memory_bytes)
    with memory_explained():
        loaded = as_tables(tables)

        how = How(
            device, chosen, disorder, sizes, running, memory_bytes=memory_bytes, workers=workers
        )
        with TableQuery.classify(query, loaded, options).open(how) as answer:
            return pa.Table.from_batches(answer, answer.schema)


def _operator(name: str | None) -> Operator:
    if name is None:
        return Operator.RANGE
    arguments.text("operator", name)
    try:
        return Operator(name)
    except ValueError:
        known = " or ".join(repr(operator.value) for operator in Operator)
        raise UsageError(f"operator must be {known}, not {name!r}") from None
