"""A failing case as a script that needs nothing of the generator."""

from __future__ import annotations

import datetime
import inspect
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from tests.fuzz.check import Outcome
from tests.fuzz.mode import LAYOUTS, Mode
from tests.fuzz.oracle import Expected
from tests.fuzz.query import Case
from tests.fuzz.run import actions, in_order, stream_options
from tests.fuzz.types import Column


def type_code(arrow: pa.DataType) -> str:
    """Python source of an Arrow type."""
    if pa.types.is_dictionary(arrow):
        return f"pa.dictionary({type_code(arrow.index_type)}, {type_code(arrow.value_type)})"
    if pa.types.is_decimal(arrow):
        return f"pa.decimal{arrow.bit_width}({arrow.precision}, {arrow.scale})"
    if pa.types.is_timestamp(arrow):
        zone = f", {arrow.tz!r}" if arrow.tz else ""
        return f"pa.timestamp({arrow.unit!r}{zone})"
    if pa.types.is_duration(arrow):
        return f"pa.duration({arrow.unit!r})"
    names = {"float": "float32()", "double": "float64()", "bool": "bool_()"}
    names |= {"date32[day]": "date32()", "date64[ms]": "date64()"}
    return f"pa.{names.get(str(arrow), f'{arrow}()')}"


def value_code(value: Any) -> str:
    """Python source of a value."""
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return f"float({str(value)!r})"
    if isinstance(value, Decimal):
        return f"Decimal({str(value)!r})"
    if isinstance(value, datetime.timedelta):
        whole = value // datetime.timedelta(microseconds=1)
        return f"datetime.timedelta(microseconds={whole})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {value_code(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(value_code(v) for v in value) + "]"
    return repr(value)


def column_code(column: Column, raw: list[Any]) -> str:
    arrow = column.arrow
    if pa.types.is_decimal(arrow):
        exact = Context(prec=100)
        raw = [None if x is None else exact.scaleb(Decimal(x), -arrow.scale) for x in raw]
    values = value_code(raw)
    if pa.types.is_timestamp(arrow) or pa.types.is_duration(arrow) or pa.types.is_date64(arrow):
        return f"pa.array({values}, pa.int64()).view({type_code(arrow)})"
    if pa.types.is_dictionary(arrow):
        return f"pa.array({values}, pa.string()).dictionary_encode()"
    return f"pa.array({values}, {type_code(arrow)})"


def script(case: Case, mode: Mode, outcome: Outcome, expected: Expected, title: str) -> str:
    """Python source that runs the case and prints what came and what was expected."""
    if mode.stream is not None:
        case = in_order(case, mode)
    query = case.query
    lines = [f'"""{title}', "", f"Run as {mode}: {outcome.what[:600]}", '"""', ""]
    lines += ["import datetime", "from decimal import Decimal", "", "import numpy as np"]
    lines += ["import penstock", "import pyarrow as pa"]
    lines += ["from penstock import Flow, Pruning, Running", "", "TABLES = {}"]
    for side in (0,) if query.same else (0, 1):
        name = query.table(side)
        columns = query.columns[side]
        raw = list(zip(*case.rows[side], strict=True)) or [()] * len(columns)
        fields = ", ".join(
            f"pa.field({c.name!r}, {type_code(c.arrow)}, nullable={c.nullable})" for c in columns
        )
        lines.append(f"TABLES[{name!r}] = pa.table(")
        lines.append("    [")
        for c, values in zip(columns, raw, strict=True):
            lines.append(f"        {column_code(c, list(values))},")
        lines += ["    ],", f"    schema=pa.schema([{fields}]),", ")"]
    if mode.layout:
        lines += ["", "", inspect.getsource(LAYOUTS[mode.layout]), ""]
        lines += [f"TABLES = {{name: {mode.layout}(table) for name, table in TABLES.items()}}"]
    options = query.options(case.objects)
    if mode.stream is not None:
        options = stream_options(case, mode)
    elif mode.pruning is not True:
        options["pruning"] = mode.pruning
    lines += [f"QUERY = {query.text()!r}", f"OPTIONS = {value_code(options)}", ""]
    lines += [f"# Expected: {expected.names}"]
    lines += [f"#   {value_code(row)}" for row in expected.rows[:20]]
    if mode.stream is None:
        lines += ["print(penstock.sql(QUERY, TABLES, **OPTIONS))"]
        return "\n".join(lines) + "\n"
    lines += ["SCHEMAS = {name: table.schema for name, table in TABLES.items()}"]
    lines += ["stream = penstock.stream(QUERY, SCHEMAS, **OPTIONS)", "results = []"]
    for kind, side, start, end in actions(case, mode.stream):
        name, source = query.table(side), query.source(side)
        if kind == "push":
            lines.append(
                f"for batch in TABLES[{name!r}].slice({start}, {end - start}).to_batches():"
            )
            lines.append(f"    stream.push({source!r}, batch)")
        elif kind == "advance":
            lines.append(f"stream.advance({source!r}, {start})")
        else:
            lines.append("results.append(stream.poll())")
    lines += ["results.append(stream.close())", "print(pa.concat_tables(results))"]
    return "\n".join(lines) + "\n"
