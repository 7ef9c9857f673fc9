"""A DuckDB of one query: Arrow tables in and out, Spark's functions as macros."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp, parse_one

from penstock.around.carried import Known, carried
from penstock.around.computed_values import ARGUMENT, COMPUTED
from penstock.around.duckdb_sql import quoted
from penstock.around.duckdb_sql.macros import FAIL, definitions
from penstock.around.qualified import is_unread, unread
from penstock.errors import DataError, PenstockError, QueryError
from penstock.expr.functions import FUNCTIONS
from penstock.expr.node import Expr, show
from penstock.query.groups import NO_KEY
from penstock.user_functions import ColumnFunction, PairFunction, Udf
from penstock.zones import Zone, zone_of

from ..rows.plain import plain_type
from .computed import function_of, returned, sent

#: Prefix of the names of users' functions.
USERS = "ps_udf_"
#: Known types of the output columns of queries, by their text.
Outputs = Mapping[str, Mapping[str, Known | None]]
#: Expressions with their columns, and the names by which queries call them.
Expressions = dict[tuple[Expr, tuple[Expr, ...]], str]
_CALLED = re.compile(rf"\b{COMPUTED}\d+\b", re.IGNORECASE)
_OVERFLOW = re.compile("Overflow in (HUGEINT|repeated aggregate|SUM)|INT64 .* column sum")
_UNGROUPED = re.compile('column "?([^" ]+)"? must appear in the GROUP BY')
#: No text can read a file, extension or Python variable, or spill to disk.
_LOCKED = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    "threads": 2,
    # An idle database gives memory back.
    "allocator_flush_threshold": "1MB",
    "allocator_bulk_deallocation_flush_threshold": "1MB",
}


def open_database(time_zone: str) -> Any:
    """Open an empty DuckDB whose settings no text can change; Penstock opens no other.

    Its tables, groups and sorted rows take at most half of the machine's memory.
    """
    import duckdb

    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    opened = duckdb.connect(":memory:", config={**_LOCKED, "memory_limit": f"{half}B"})
    opened.execute(f"SET TimeZone = {quoted(zone_of(time_zone).icu_name)}")
    opened.execute("SET lock_configuration = true")
    return opened


#: By time zone a database that queries have left, its macros, and its list of errors: to open one
#: takes 13 ms, more than many joins. Queries are SELECTs, of which nothing stays in it.
_idle: dict[str, tuple[Any, set[str], list[PenstockError]]] = {}
#: Most of these.
_MOST_IDLE = 4


def _close_idle() -> None:
    for zone in list(_idle):
        if (entry := _idle.pop(zone, None)) is not None:  # another thread may have taken it
            entry[0].close()


os.register_at_fork(before=_close_idle)  # a forked process has no threads of a database


class RelationalEngine:
    """Runs queries over Arrow tables.

    Parameters
    ----------
    time_zone : str
        Zone in which times are read and days begin.
    functions : mapping of name to function, optional
        Users' functions; queries call them by :data:`USERS` and their name.
    """

    def __init__(self, time_zone: str | None, functions: Mapping[str, Udf] | None = None) -> None:
        self._zone = zone_of(time_zone or "UTC")
        self._label = self._zone.label if time_zone else None
        self._functions = functions or {}
        self._opened: Any = None
        #: Whether the last query ended well.
        self._is_sound = False
        self._lock = threading.Lock()
        #: Names of macros that are defined.
        self._known: set[str] = set()
        #: Errors that functions of queries raised; the database only quotes them.
        self._failed: list[PenstockError] = []
        self.expressions: Expressions = {}
        self.outputs: Outputs = {}

    @property
    def _connection(self) -> Any:
        """The database, opened for the first query: some streams never run one."""
        if self._opened is None and not self._functions:
            self._opened, self._known, self._failed = _idle.pop(
                self._zone.name, (None, self._known, self._failed)
            )
        if self._opened is None:
            self._opened = open_database(self._zone.name)
            _create(self._opened, FAIL, self._keeping_errors(_fail), [pa.string()], pa.bool_())
            for name, function in self._functions.items():
                _add(self._opened, f"{USERS}{name.lower()}", function)
        return self._opened

    def computed(self, expr: Expr, leaves: tuple[Expr, ...]) -> str:
        """Return the name by which queries call an expression of columns."""
        return self.expressions.setdefault((expr, leaves), f"{COMPUTED}{len(self.expressions)}")

    def calls(self, text: str) -> dict[str, str]:
        """Return the expressions that functions in a text compute, by their names."""
        called = self._called(text)
        return {name: show(expr, {ARGUMENT: ""}) for name, (expr, _) in called.items()}

    def _called(self, text: str) -> dict[str, tuple[Expr, tuple[Expr, ...]]]:
        """Return the expressions that a text calls, with their columns, by their names."""
        names = {name.lower() for name in _CALLED.findall(text)}
        return {name: one for one, name in self.expressions.items() if name in names}

    def note_outputs(self, text: str, outputs: Mapping[str, Known | None]) -> None:
        """Note which types the columns of a query have."""
        self.outputs = {**self.outputs, text: dict(outputs)}

    def run(self, text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Run a query of these tables; any thread may call, one after the other.

        Raises
        ------
        DataError
            A value cannot be computed.
        QueryError
            The text is not one SELECT.
        KeyboardInterrupt
            The user has interrupted it.
        """
        with self._lock:
            return self._run(text, tables, lambda rows: rows)

    def schema(self, text: str, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        """Return the schema of a query over tables with these schemas, without running it.

        Raises
        ------
        DataError, QueryError
            As for :meth:`run`.
        """
        empty = {name: schema.empty_table() for name, schema in schemas.items()}
        with self._lock:
            return self._run(text, empty, self._without_rows).schema

    def _without_rows(self, rows: Any) -> Any:
        """Return an empty relation with the columns of another one, which is not computed."""
        import duckdb

        null = duckdb.ConstantExpression(None)
        columns = zip(rows.columns, rows.types, strict=True)
        empty = [null.cast(dtype).alias(name) for name, dtype in columns]
        return self._connection.sql("SELECT NULL LIMIT 0").select(*empty)

    def _run(
        self, text: str, tables: Mapping[str, pa.Table], wanted: Callable[[Any], Any]
    ) -> pa.Table:
        import duckdb

        self._is_sound = False
        try:
            connection = self._connection
            self._failed.clear()
            self._define(text)
            for name, table in tables.items():
                connection.register(name, sent(_readable(table, text)))
            statements = connection.extract_statements(text)
            if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
                raise QueryError("a part of the query is not one SELECT")
            rows = wanted(connection.sql(statements[0]))
            table = _in_zone(rows.to_arrow_table(), self._zone)
            if pa.month_day_nano_interval() in table.schema.types:
                raise DataError("an interval of months has no length; count it in days")
            self._is_sound = True
            # As in a join: computed instants have the zone that the caller gave.
            return returned(table, self.outputs.get(text, {}), self._label)
        except pa.ArrowInvalid as error:  # Arrow's limit is some 60 levels
            raise DataError(
                "a column has too many lists, structs or maps inside one another; take "
                "some of its values apart"
            ) from error
        except duckdb.OutOfMemoryException as error:
            raise MemoryError(_first_line(error)) from error
        except duckdb.Error as error:
            reason = str(error)
            for failed in self._failed:  # a branch not taken may have raised others
                if str(failed) in reason:
                    raise failed from None
            if reason.endswith("failed: KeyboardInterrupt"):  # as it read a table's schema
                raise KeyboardInterrupt from error
            reason = _first_line(error)
            if _OVERFLOW.search(reason):
                limit = "64 bits" if "INT64" in reason else "38 digits"
                raise DataError(
                    f"the sum of {self._summed(text)} is beyond {limit}: CAST it to DOUBLE"
                ) from None
            if (column := _UNGROUPED.search(reason)) is not None:
                raise DataError(NO_KEY.format(column[1])) from None
            raise DataError(f"a part of the query cannot be computed: {reason}") from error
        except RuntimeError as error:
            if "interrupt" not in str(error).lower():
                raise
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt from error  # DuckDB has taken the signal
            raise DataError(f"DuckDB stopped a part of the query: {_first_line(error)}") from error
        finally:
            for name in tables:
                self._connection.unregister(name)

    def _summed(self, text: str) -> str:
        """The arguments of a query's sums, as the user has them."""
        shown = self.calls(text)
        sums = {one.this for one in parse_one(text, dialect="duckdb").find_all(exp.Sum)}
        texts = (shown.get(one.name.lower()) or one.sql("duckdb") for one in sums)
        named = {one.replace('"', "") for one in texts}
        return " or ".join(sorted(named))

    def _define(self, text: str) -> None:
        """Define the expressions and macros that a query calls."""
        for name, (expr, leaves) in self._called(text).items():
            if name not in self._known:
                self._known.add(name)
                self._add_computed(name, expr, leaves)
        for statement in definitions(text, self._known):
            self._connection.execute(statement)

    def _add_computed(self, name: str, expr: Expr, leaves: tuple[Expr, ...]) -> None:
        run = self._keeping_errors(function_of(expr, leaves, self._zone.label))
        takes = [carried(one.type, self._zone.label) for one in leaves] or [pa.int32()]
        _create(self._connection, name, run, takes, carried(expr.type, self._zone.label))

    def _keeping_errors(self, run: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
        """Wrap a function so that its errors are kept in ``_failed``."""

        failed = self._failed

        def keeping(*arrays: pa.Array) -> pa.Array:
            try:
                return run(*arrays)
            except PenstockError as error:
                failed.append(error)
                raise

        return keeping

    def close(self) -> None:
        """End what still runs, in another thread; close the database, or leave it to a query."""
        is_idle = self._lock.acquire(blocking=False)
        if is_idle:
            self._lock.release()
        elif self._opened is not None:
            self._opened.interrupt()
        with self._lock:
            opened, self._opened = self._opened, None
            if opened is None:
                return
            if is_idle and self._is_sound and not self._functions:
                for name in self._known.intersection(self.expressions.values()):
                    opened.remove_function(name)  # another query has another one of this name
                    self._known.remove(name)
                if len(_idle) >= _MOST_IDLE:
                    _close_idle()
                entry = opened, self._known, self._failed
                if _idle.setdefault(self._zone.name, entry) is entry:
                    return
            opened.close()


def _readable(table: pa.Table, text: str) -> pa.Table:
    """Leave out columns of types that DuckDB does not read.

    Raises
    ------
    DataError
        The query names one.
    """
    left_out = [field for field in table.schema if is_unread(field.type)]
    for field in left_out:
        if re.search(rf"\b{re.escape(field.name)}\b", text, re.IGNORECASE):
            raise DataError(unread(field.name, field.type))
    return table.drop_columns([field.name for field in left_out])


def _fail(messages: pa.Array) -> pa.Array:
    raise DataError(messages[0].as_py())


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _add(connection: Any, name: str, function: Udf) -> None:
    """Give a user's function a name in the database."""
    call = function if isinstance(function, ColumnFunction) else _of_columns(function)

    def run(*arrays: pa.Array) -> pa.Array:
        result = call(*(array.cast(t) for array, t in zip(arrays, call.takes, strict=True)))
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        return result.cast(call.returns)

    _create(connection, name, run, call.takes, call.returns)


def _create(
    connection: Any,
    name: str,
    run: Callable[..., pa.Array],
    takes: Sequence[pa.DataType],
    returns: pa.DataType,
) -> None:
    """Register a function of arrays with the database."""

    def whole(*chunks: pa.ChunkedArray) -> pa.Array:
        # The database gives one chunk; combining would copy it.
        return run(*(c.chunk(0) if c.num_chunks == 1 else c.combine_chunks() for c in chunks))

    # The database reads the number of arguments from the signature.
    names = [Parameter(f"x{k}", Parameter.POSITIONAL_ONLY) for k in range(len(takes))]
    whole.__signature__ = Signature(names)  # type: ignore[attr-defined]
    types = [_type_name(connection, dtype) for dtype in (*takes, returns)]
    connection.create_function(
        name, whole, types[:-1], types[-1], type="arrow", null_handling="special"
    )


def _of_columns(function: PairFunction) -> ColumnFunction:
    """Turn a function of pairs into a function of the columns of one table."""

    def run(*arrays: pa.Array) -> pa.Array:
        valid = np.logical_and.reduce([array.is_valid().to_numpy(False) for array in arrays])
        values = [array.fill_null(0.0).to_numpy(zero_copy_only=False) for array in arrays]
        result = pa.array(FUNCTIONS[function.key](*values), mask=~valid)
        return pc.call_function("not_equal", [result, 0.0]) if function.is_condition else result

    returns = pa.bool_() if function.is_condition else pa.float64()
    return ColumnFunction(run, (pa.float64(),) * function.arity, returns)


def _type_name(connection: Any, dtype: pa.DataType) -> Any:
    """Return DuckDB's type for an Arrow type."""
    if dtype == pa.float64():
        return "DOUBLE"
    return connection.from_arrow(pa.table({"x": pa.array([], dtype)})).types[0]


def _in_zone(table: pa.Table, zone: Zone) -> pa.Table:
    """Name the zone of instants as Arrow does, where DuckDB has another name for it."""
    if zone.icu_name == zone.label:
        return table

    def renamed(dtype: pa.DataType) -> pa.DataType:
        has_zone = pa.types.is_timestamp(dtype) and dtype.tz is not None
        return pa.timestamp(dtype.unit, zone.label) if has_zone else dtype

    types = [plain_type(dtype, renamed) for dtype in table.schema.types]
    fields = [field.with_type(dtype) for field, dtype in zip(table.schema, types, strict=True)]
    return table.cast(pa.schema(fields))
