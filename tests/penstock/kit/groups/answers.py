"""DuckDB's rows for a random query, and whether Penstock's are the same."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from .columns import UNITS, Table
from .query import Query

Row = tuple[Any, ...]


def answer(query: Query, table: Table, accepted: list[bool]) -> tuple[list[Row], list[Row]]:
    """DuckDB's rows over the accepted rows, and beside them the magnitudes of sums of floats."""
    with duckdb.connect(config={"threads": 1}) as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("arrow", _plain(table, accepted))
        db.execute(f"CREATE TABLE e AS SELECT {_view(table)} FROM arrow")
        described = db.execute(f"DESCRIBE {query.duck()}").fetchall()
        columns = ", ".join(_whole(name, type_) for name, type_, *_ in described)
        rows = db.execute(f"SELECT {columns} FROM ({query.duck()})").fetchall()
    width = len(query.keys) + len(query.outputs)
    return [tuple(map(_value, r[:width])) for r in rows], [r[width:] for r in rows]


def _plain(table: Table, accepted: list[bool]) -> pa.Table:
    data = {
        "__t": pa.array(table.times, pa.int64()),
        "__row": pa.array(range(len(accepted)), pa.int64()),
        "__in": pa.array(accepted, pa.bool_()),
    }
    for name in table.rows.column_names:
        column = table.rows[name].combine_chunks()
        type_ = column.type
        if pa.types.is_timestamp(type_):
            column = column.cast(pa.timestamp(type_.unit))
        elif pa.types.is_decimal(type_):
            column = column.cast(pa.decimal128(min(38, type_.precision), type_.scale))
        elif pa.types.is_date(type_):
            column = column.cast(pa.date32())
        elif pa.types.is_duration(type_):
            column = column.cast(pa.int64())
        elif pa.types.is_dictionary(type_):
            column = column.dictionary_decode()
        data[name] = column
    return pa.table(data)


def _view(table: Table) -> str:
    parts = ["__t::HUGEINT AS __t", "__row", "__in"]
    for name, type_ in zip(table.rows.column_names, table.rows.schema.types, strict=True):
        if pa.types.is_duration(type_):
            parts.append(f"{name}::HUGEINT * {UNITS[type_.unit]} AS {name}")
        elif pa.types.is_integer(type_):
            parts.append(f"{name}::HUGEINT AS {name}")
        elif pa.types.is_timestamp(type_) and type_.unit != "ns":
            parts.append(f"{name}::TIMESTAMP AS {name}")
        else:
            parts.append(name)
    return ", ".join(parts)


def _whole(name: str, type_: str) -> str:
    if type_.startswith("TIMESTAMP"):
        return f"epoch_ns({name})"
    return f"{name} - DATE '1970-01-01'" if type_ == "DATE" else name


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def exact(query: Query, table: pa.Table) -> list[Row]:
    """What has one value whatever the order of the rows, in the order of the groups."""
    every = [*query.keys, *query.outputs]
    return _values(table.select([i for i, o in enumerate(every) if not o.magnitude]))


def _values(table: pa.Table) -> list[Row]:
    """The rows; times are nanoseconds, or days."""
    if not table.column_names:
        return [()] * table.num_rows
    return list(zip(*map(_column, table.columns), strict=True))


def _column(column: pa.ChunkedArray) -> list[Any]:
    type_ = column.type
    factor = 1
    if pa.types.is_dictionary(type_):
        column = pa.chunked_array([c.dictionary_decode() for c in column.chunks], type_.value_type)
    elif pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        column, factor = column.cast(pa.int64()), UNITS[type_.unit]
    elif pa.types.is_date32(type_):
        column = column.cast(pa.int32())
    elif pa.types.is_date64(type_):
        column = column.cast(pa.date32()).cast(pa.int32())
    found = column.to_pylist()
    if factor != 1:
        return [None if v is None else v * factor for v in found]
    return [_value(v) for v in found]


def difference(query: Query, want: list[Row], magnitudes: list[Row], result: pa.Table) -> str:
    """How the rows differ; empty where they are the same, as multisets."""
    have = _values(result)
    every = [*query.keys, *query.outputs]
    free = [i for i, o in enumerate(every) if o.magnitude or o.close]
    weighed = [i for i, o in enumerate(every) if o.magnitude]

    def ordered(rows: list[Row], extra: list[Row]) -> list[tuple[Row, Row, Row]]:
        split = [
            (
                tuple(v for i, v in enumerate(r) if i not in free),
                tuple(r[i] for i in free),
                x,
            )
            for r, x in zip(rows, extra, strict=True)
        ]
        return sorted(
            split, key=lambda s: (tuple(map(_sortable, s[0])), tuple(map(_sortable, s[1])))
        )

    left = ordered(want, magnitudes)
    right = ordered(have, [()] * len(have))
    for (exact, near, extra), (exact2, near2, _) in zip(left, right, strict=False):
        if exact != exact2:
            return f"row {exact + near}, not {exact2 + near2}; {len(want)} rows, not {len(have)}"
        limits = dict(zip(weighed, extra, strict=True))
        for i, a, b in zip(free, near, near2, strict=True):
            if not _close(a, b, limits.get(i, 0.0)):
                return f"{every[i].text} of {exact} is {a!r}, not {b!r}"
    return "" if len(left) == len(right) else f"{len(left)} rows, not {len(right)}"


def _sortable(value: Any) -> tuple[str, Any]:
    if isinstance(value, bool | int | float | Decimal):
        return ("", value)
    return (type(value).__name__, str(value))


def _close(a: Any, b: Any, magnitude: float) -> bool:
    if a == b:
        return True
    if isinstance(b, Decimal) and isinstance(a, float):  # an average, rounded to its digits
        return abs(a - float(b)) <= 0.51 * 10.0 ** b.as_tuple().exponent + 4 * math.ulp(abs(a))
    if not isinstance(a, float) or not isinstance(b, float) or math.isinf(a) or math.isinf(b):
        return False
    # A quotient of exact numbers is off by its own rounding and that of its terms.
    return abs(a - b) <= max(1e-12 * (magnitude or 0.0), 4 * math.ulp(max(abs(a), abs(b))))
