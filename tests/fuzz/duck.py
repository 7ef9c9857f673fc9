"""The second oracle: the query in DuckDB's dialect, exact by construction.

Integers, decimals, dates, timestamps and durations become HUGEINTs of their last digit or of
nanoseconds, aligned in the text. What DuckDB does differently, or cannot hold, is skipped with a
reason that is counted.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa

from tests.fuzz.compare import difference
from tests.fuzz.evaluate import common
from tests.fuzz.expr import E, conjunction
from tests.fuzz.oracle import Expected
from tests.fuzz.query import JOINS, Case, Query
from tests.fuzz.types import F64, Type, value_of

SCALED = ("int", "dec", "date", "ts", "dur", "clock")


class SkipError(Exception):
    """DuckDB is not asked; the message is the reason."""


def scaled(value: Any, scale: int) -> int:
    return int(Fraction(value) * 10**scale)


class Duck:
    """DuckDB in memory, with a table per side that each case replaces."""

    def __init__(self) -> None:
        self._db = duckdb.connect(config={"threads": 1})

    def __enter__(self) -> Duck:
        return self

    def __exit__(self, *error: object) -> None:
        self._db.close()

    def check(self, case: Case, expected: Expected) -> str | None:
        """How DuckDB's rows differ from the expected ones, None where they do not.

        Raises
        ------
        SkipError
            If DuckDB cannot say.
        """
        if case.query.rows is not None:
            raise SkipError("ROWS windows")
        if expected.misfit:
            raise SkipError("a CAST that does not fit")
        if expected.ties:
            raise SkipError("ties of min_by or max_by")
        for side, name in enumerate("lr"):
            self._db.register(name, self._table(case, side))
        text = Dialect(case).query()
        try:
            result = self._db.sql(text).fetchall()
        except (duckdb.OutOfRangeException, duckdb.ConversionException):
            raise SkipError("beyond 127 bits") from None
        scales = [e.type for e, _ in case.query.outputs()]
        rows = [
            tuple(self._value(x, t) for x, t in zip(row, scales, strict=True)) for row in result
        ]
        # Its averages of decimals are of double precision.
        whole = case.query.expressions()
        averages = any(e.op == "agg" and e.value == "avg" for w in whole for e in w.walk())
        return difference(replace(expected, rounded=expected.rounded or averages), None, rows)

    def _table(self, case: Case, side: int) -> pa.Table:
        arrays, names = [], []
        for i, column in enumerate(case.query.columns[side]):
            type_ = case.query.column_type(side, column)
            values = [value_of(row[i], column.arrow) for row in case.rows[side]]
            if type_.kind == "clock":
                unit = case.query.times.unit(side)
                values = [None if x is None else x * unit for x in values]
            if type_.kind in SCALED:
                whole = [None if x is None else scaled(x, type_.scale) for x in values]
                if any(x is not None and abs(x) >= 10**38 for x in whole):
                    raise SkipError("beyond 127 bits")
                # Text reads as HUGEINT without a limit of digits.
                arrays.append(pa.array([None if x is None else str(x) for x in whole], pa.string()))
            else:
                kinds = {"f32": pa.float32(), "f64": pa.float64(), "bool": pa.bool_()}
                kinds |= {"str": pa.string(), "bin": pa.binary()}
                arrays.append(pa.array(values, kinds[type_.kind]))
            names.append(column.name)
        return pa.table(arrays, names)

    def _value(self, x: Any, type_: Type) -> Any:
        if x is None:
            return None
        if type_.kind in ("int", "dec"):
            return Fraction(int(x), 10**type_.scale)
        return x


class Dialect:
    """The text of a case's query for DuckDB, parameters written out."""

    def __init__(self, case: Case) -> None:
        self._run = case
        self._names: tuple[str, str] = ("a", "b")

    def query(self) -> str:
        query = self._run.query
        left, right = (self._source(query, side) for side in (0, 1))
        join = "JOIN" if query.join == "comma" else JOINS[query.join].removeprefix("LEFT ")
        if query.join == "left":
            join = "LEFT JOIN"
        on = [self.text(conjunction(list(query.on)))]
        times = f"a.t IS NOT NULL AND b.t IS NOT NULL AND ({on[0]})"
        if query.within is not None:
            times += f" AND abs(a.t - b.t) <= {query.within}"
        where = [self.text(e) for e in query.where]
        items = ", ".join(f"{self.output(e)} AS c{i}" for i, (e, _) in enumerate(query.outputs()))
        whole = f"SELECT {'DISTINCT ' if query.distinct else ''}{items} FROM {left} a"
        whole += f" {join} {right} b ON {times}"
        if where:
            whole += " WHERE " + " AND ".join(f"({x})" for x in where)
        if query.group:
            whole += " GROUP BY " + ", ".join(self.text(e) for e in query.group)
        if query.having is not None:
            whole += f" HAVING {self.text(query.having)}"
        return whole

    def output(self, e: E) -> str:
        whole = self.text(e)
        if e.type.kind == "clock":
            return f"({whole}) // {self._run.query.times.unit(min(e.sides()))}"
        return whole

    def _source(self, query: Query, side: int) -> str:
        names = []
        for column in query.columns[side]:
            kind = query.column_type(side, column).kind
            as_huge = kind in SCALED
            names.append(
                f"CAST({column.name} AS HUGEINT) AS {column.name}" if as_huge else column.name
            )
        source = f"(SELECT {', '.join(names)} FROM {'lr'[side]})"
        self._names = ("", "")
        for layer in query.layers[side]:
            items = "*"
            if layer.items is not None:
                items = ", ".join(f"{self.text(e)} AS {name}" for e, name in layer.items)
            where = "" if layer.where is None else f" WHERE {self.text(layer.where)}"
            source = f"(SELECT {items} FROM {source}{where})"
        self._names = ("a", "b")
        return source

    def constant(self, value: Any, type_: Type) -> str:
        if value is None:
            names = {"f64": "DOUBLE", "f32": "FLOAT", "bool": "BOOLEAN", "str": "VARCHAR"}
            return f"CAST(NULL AS {names.get(type_.kind, 'HUGEINT')})"
        if type_.kind in SCALED:
            return f"CAST('{scaled(value, type_.scale)}' AS HUGEINT)"
        if type_.kind == "f64":
            return f"CAST('{value!r}' AS DOUBLE)"
        if type_.kind == "bool":
            return str(value)
        if type_.kind == "bin":
            return "CAST('" + "".join(f"\\x{byte:02X}" for byte in value) + "' AS BLOB)"
        quoted = value.replace("'", "''")
        return f"'{quoted}'"

    def met(self, args: tuple[E, ...], to: Type | None = None) -> tuple[list[str], Type]:
        """Arguments in the type in which they meet."""
        types = [a.type for a in args] + ([to] if to else [])
        if any(t.number for t in types):
            whole = common(types)
            if whole is not None:
                return [self.double(a) for a in args], F64
            scale = max(t.scale for t in types)
            return [self.rescaled(a, scale) for a in args], Type("dec", scale)
        return [self.text(a) for a in args], types[0]

    def double(self, e: E) -> str:
        whole = self.text(e)
        if not e.type.exact:
            return f"CAST({whole} AS DOUBLE)"
        if e.type.scale:
            return f"(CAST({whole} AS DOUBLE) / 1e{e.type.scale})"
        return f"CAST({whole} AS DOUBLE)"

    def rescaled(self, e: E, scale: int) -> str:
        more = scale - e.type.scale
        return self.text(e) if more <= 0 or not e.type.exact else f"({self.text(e)} * {10**more})"

    def text(self, e: E) -> str:
        f = getattr(self, f"_{e.op}", None)
        if f is not None:
            return f(e)
        symbols = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
        symbols |= {"and": "AND", "or": "OR", "add": "+", "sub": "-"}
        if e.op in symbols:
            if e.op in ("add", "sub") and e.type.kind == "f32":
                args = [self.text(a) for a in e.args]
            else:
                args, _ = self.met(e.args)
            return f"({args[0]} {symbols[e.op]} {args[1]})"
        raise SkipError(f"{e.op}")

    def _col(self, e: E) -> str:
        alias = self._names[e.value[0]]
        return f"{alias}.{e.value[1]}" if alias else e.value[1]

    def _lit(self, e: E) -> str:
        return self.constant(e.value[0], e.type)

    def _param(self, e: E) -> str:
        return self.constant(self._run.params[e.value][0], e.type)

    def _mul(self, e: E) -> str:
        if e.type.exact or e.type.kind == "f32":
            return f"({self.text(e.args[0])} * {self.text(e.args[1])})"
        return "({} * {})".format(*self.met(e.args)[0])

    def _mod(self, e: E) -> str:
        if not e.type.exact:
            raise SkipError("% of floats")
        x, y = self.met(e.args)[0]
        return f"({x} % NULLIF({y}, 0))"

    def _bits(self, e: E, form: str) -> str:
        return form.format(*(self.text(a) for a in e.args))

    def _and_bits(self, e: E) -> str:
        return self._bits(e, "({} & {})")

    def _or_bits(self, e: E) -> str:
        return self._bits(e, "({} | {})")

    def _xor(self, e: E) -> str:
        return self._bits(e, "xor({}, {})")

    def _not_bits(self, e: E) -> str:
        return self._bits(e, "(-1 - {})")

    def _shl(self, e: E) -> str:
        return f"({self.text(e.args[0])} * {1 << e.args[1].value[0]})"

    def _shr(self, e: E) -> str:
        x, size = self.text(e.args[0]), 1 << e.args[1].value[0]
        return f"(({x} - ((({x}) % {size}) + {size}) % {size}) // {size})"

    def _neg(self, e: E) -> str:
        return f"(-{self.text(e.args[0])})"

    def _abs(self, e: E) -> str:
        return f"abs({self.text(e.args[0])})"

    def _not(self, e: E) -> str:
        return f"(NOT {self.text(e.args[0])})"

    def _least(self, e: E) -> str:
        return f"least({', '.join(self.met(e.args, e.type)[0])})"

    def _greatest(self, e: E) -> str:
        return f"greatest({', '.join(self.met(e.args, e.type)[0])})"

    def _isnull(self, e: E) -> str:
        return f"({self.text(e.args[0])} IS NULL)"

    def _notnull(self, e: E) -> str:
        return f"({self.text(e.args[0])} IS NOT NULL)"

    def _pairwise(self, e: E, op: str, x: E, y: E) -> str:
        args = self.met((x, y))[0]
        return f"({args[0]} {op} {args[1]})"

    def _between(self, e: E) -> str:
        x, low, high = e.args
        inside = f"({self._pairwise(e, '>=', x, low)} AND {self._pairwise(e, '<=', x, high)})"
        return f"(NOT {inside})" if e.value == "not" else inside

    def _in(self, e: E) -> str:
        some = " OR ".join(self._pairwise(e, "=", e.args[0], item) for item in e.args[1:])
        return f"(NOT ({some}))" if e.value else f"({some})"

    def _values(self, args: tuple[E, ...], to: Type) -> list[str]:
        if to.exact:
            return [self.rescaled(a, to.scale) for a in args]
        return [self.double(a) if to == F64 else self.text(a) for a in args]

    def _case(self, e: E) -> str:
        tests = [self.text(a) for a in e.args[0:-1:2]]
        values = self._values((*e.args[1:-1:2], e.args[-1]), e.type)
        whens = " ".join(f"WHEN {t} THEN {v}" for t, v in zip(tests, values, strict=False))
        return f"(CASE {whens} ELSE {values[-1]} END)"

    def _if(self, e: E) -> str:
        return self._case(e)

    def _startswith(self, e: E) -> str:
        if e.args[0].type.kind == "bin":
            raise SkipError("prefix of binary")
        return f"starts_with({self.text(e.args[0])}, {self.text(e.args[1])})"

    def _like(self, e: E) -> str:
        return f"starts_with({self.text(e.args[0])}, {self.text(e.args[1])})"

    def _cast(self, e: E) -> str:
        if e.type == F64:
            return self.double(e.args[0])
        raise SkipError("CAST that may lose digits")

    def floor(self, x: str, size: int, offset: int) -> str:
        return f"({x} - ((({x}) - {offset}) % {size} + {size}) % {size})"

    def _trunc(self, e: E) -> str:
        size = {"second": 10**9, "minute": 60 * 10**9, "hour": 3600 * 10**9, "day": 86400 * 10**9}
        if e.value == "week":
            return self.floor(self.text(e.args[0]), 7 * size["day"], -3 * size["day"])
        return self.floor(self.text(e.args[0]), size[e.value], 0)

    def _window(self, e: E) -> str:
        size, offset, _ = e.value
        return self.floor(self.text(e.args[0]), size, offset)

    def _key(self, e: E) -> str:
        return self.text(e.args[0])

    def _window_start(self, e: E) -> str:
        return self.text(e.args[0])

    def _window_end(self, e: E) -> str:
        return f"({self.text(e.args[0])} + {e.args[0].args[0].value[0]})"

    def _agg(self, e: E) -> str:
        if not e.args:
            return "CAST(count(*) AS HUGEINT)"
        x = self.text(e.args[0])
        match e.value:
            case "count":
                return f"CAST(count({x}) AS HUGEINT)"
            case "count_if":
                return f"CAST(count(*) FILTER ({x}) AS HUGEINT)"
            case "avg" if e.type.kind == "dec":
                total, count = f"sum({x})", f"count({x})"
                size = f"((abs({total}) * 20000 + {count}) // (2 * {count}))"
                return f"({size} * sign({total}))::HUGEINT"
            case "avg":
                if e.args[0].type.exact:
                    size = 10 ** e.args[0].type.scale
                    return f"(CAST(sum({x}) AS DOUBLE) / count({x}) / {size})"
                return f"avg(CAST({x} AS DOUBLE))"
            case "min_by" | "max_by":
                order = self.text(e.args[1])
                # DuckDB passes over rows whose value is NULL, so the value is looked up by hand.
                return f"{'arg_min_null' if e.value == 'min_by' else 'arg_max_null'}({x}, {order})"
        if e.value == "sum" and e.args[0].type.kind == "f32":
            return f"sum(CAST({x} AS DOUBLE))"
        return f"{e.value}({x})"
