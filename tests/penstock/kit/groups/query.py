"""Random queries over one table, each as Penstock's text and as DuckDB's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from .columns import Clock, Column, Table

#: DuckDB's order of rows for min_by and max_by of equal values, by time and without.
BY_TIME = "__t NULLS LAST, __row"
BY_ROW = "__row"
_WORDS = """
    * ( ) , NULL NOT count sum window t u '10' 10 -1 0.5 DISTINCT GROUP BY HAVING WHERE AS x min_by
    max avg e e.t window.start INTERVAL CASE WHEN THEN END CAST date_trunc = % IN IS 'a' true first
    u.v `t` 1e400 99999999999999999999999999999999999999999
"""


@dataclass
class Output:
    """A column of the result.

    Parameters
    ----------
    duck : str
        The same in DuckDB.
    magnitude : str
        DuckDB's sum of magnitudes, where the last digits of a sum of floats are free; empty where
        the value is exact.
    close : bool
        Whether the value is a quotient, whose last digit is free.
    """

    text: str
    duck: str
    magnitude: str = ""
    close: bool = False


@dataclass
class Query:
    """A random query.

    Parameters
    ----------
    keys : list of Output
    timed : bool
        Whether a key follows the event time.
    windowed : bool
        Whether rows without an event time are in no group.
    unique : bool
        Whether ``u`` is a key.
    """

    keys: list[Output] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    where: str = ""
    having: str = ""
    distinct: bool = False
    timed: bool = False
    windowed: bool = False
    unique: bool = False
    source: str = "e"

    @property
    def text(self) -> str:
        every = [*self.keys, *self.outputs]
        select = ", ".join(f"{o.text} AS o{i}" for i, o in enumerate(every))
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{select} FROM {self.source}"
        text += f" WHERE {self.where}" if self.where else ""
        if self.group and not self.distinct:
            text += f" GROUP BY {', '.join(self.group)}"
        return text + (f" HAVING {self.having}" if self.having else "")

    def duck(self, accepted: str = "__in") -> str:
        every = [*self.keys, *self.outputs]
        select = [f"{o.duck} AS o{i}" for i, o in enumerate(every)]
        select += [f"{o.magnitude} AS m{i}" for i, o in enumerate(every) if o.magnitude]
        conditions = [accepted, *([f"({self.where})"] if self.where else [])]
        conditions += ["__t IS NOT NULL"] if self.windowed else []
        text = f"SELECT {', '.join(select)} FROM e WHERE {' AND '.join(conditions)}"
        if self.keys:
            text += f" GROUP BY {', '.join(k.duck for k in self.keys)}"
        return text + (f" HAVING {self.having}" if self.having else "")


def _plain(text: str) -> Output:
    return Output(text, text)


def condition(rng: Random, column: Column) -> str:
    """A condition that means the same in both dialects."""
    c = column.name
    kinds = {
        "int": [f"{c} > 0", f"{c} IN (0, 1, 2)", f"{c} % 2 = 0", f"{c} BETWEEN -1 AND 1"],
        "float": [f"{c} > 0.5", f"abs({c}) <= 2.25", f"{c} <> 0"],
        "dec": [f"{c} >= 0.5", f"{c} < 2"],
        "bool": [c, f"NOT {c}"],
        "date": [f"{c} >= DATE '1970-01-01'"],
        "ts": [f"{c} >= TIMESTAMP '1970-01-01 00:00:00'"],
        "text": [f"{c} = 'a'", f"{c} IN ('', 'ab', 'ä')", f"{c} LIKE 'a%'", f"{c} <> 'A'"],
    }.get(column.kind, [])
    return rng.choice([*kinds, f"{c} IS NULL", f"{c} IS NOT NULL"])


def _key(rng: Random, column: Column) -> Output:
    c = column.name
    choices = [c, c, c]
    if column.kind == "int":
        choices += [f"{c} % 3", f"-{c}", f"{c} + 1", f"CASE WHEN {c} > 1 THEN 1 ELSE 0 END"]
        choices += [f"coalesce({c}, 0)", f"least({c}, 2)", f"abs({c})"]
    elif column.kind == "float":
        choices += [f"-{c}", f"abs({c})"]
    elif column.kind == "dec" and not column.extreme:
        choices += [f"{c} + 1", f"-{c}"]
    if rng.random() < 0.2:
        return _plain(f"({condition(rng, column)})")
    return _plain(rng.choice(choices))


def _time_key(rng: Random, clock: Clock, query: Query) -> Output:
    query.timed = True
    size = rng.choice([1, 7, 10, 60, 3_600])
    offset = rng.choice([0, 0, 3]) % size
    if rng.random() < 0.2:
        query.group.append("t")
        return Output("t", "t" if not clock.integer else "__t")
    if clock.integer and rng.random() < 0.4:
        query.group.append(f"t - t % {size}")
        return Output(f"t - t % {size}", f"(__t - __t % {size})")
    if not clock.integer and clock.zone is None and clock.unit != "ns" and rng.random() < 0.3:
        unit = rng.choice(["second", "minute", "hour", "day", "week"])
        query.group.append(f"date_trunc('{unit}', t)")
        return Output(query.group[-1], f"date_trunc('{unit}', t)")
    query.windowed = True
    if clock.integer:
        window = f"window(t, {size}" + (f", {size}, {offset})" if offset else ")")
    else:
        spelling = f"'{size} seconds'"
        window = f"window(t, {spelling}" + (f", {spelling}, '{offset} seconds')" if offset else ")")
    query.group.append(window)
    end = rng.random() < 0.3
    text = rng.choice([window, "window"]) + (".end" if end else ".start")
    if clock.integer or clock.unit == "ns":
        s, o = size * clock.second, offset * clock.second
        start = f"(__t - (((__t - {o}) % {s}) + {s}) % {s})"
        return Output(text, f"({start} + {s})" if end else start)
    start = f"time_bucket(INTERVAL {size} SECONDS, t, TIMESTAMP '1970-01-01 00:00:0{offset}')"
    return Output(text, f"({start} + INTERVAL {size} SECONDS)" if end else start)


def _aggregate(rng: Random, columns: list[Column], order: str) -> Output:
    column = rng.choice(columns)
    c, kind = column.name, column.kind
    integer = isinstance(column.type, pa.DataType) and kind == "int"
    summable = (integer and not (column.extreme and column.type.bit_width == 64)) or (
        kind == "dec" and not column.extreme
    )
    value = c
    if integer and not column.extreme and rng.random() < 0.3:
        value = rng.choice([f"{c} + 1", f"-{c}", f"{c} * 2", f"{c} % 2"])
    if summable and rng.random() < 0.2:
        value = f"CASE WHEN {condition(rng, rng.choice(columns))} THEN {value} END"
    choices = ["count", "count_if"]
    if kind == "float":
        choices += ["fsum", "favg", "min", "max", "min_by"]
    if summable:
        choices += ["sum", "sum"]
    if integer or summable:
        choices += ["avg"]
    if kind in ("int", "dec"):
        choices += ["min", "max", "min_by", "max_by"]
    if kind in ("date", "ts", "dur"):
        choices += ["min", "max", "min_by", "max_by"]
    match rng.choice(choices):
        case "count":
            return _plain(rng.choice(["count(*)", f"count({c})"]))
        case "count_if":
            truth = condition(rng, column)
            return Output(f"count_if({truth})", f"count(*) FILTER ({truth})")
        case "fsum":
            magnitude = f"fsum(abs({c}::DOUBLE))"
            return Output(f"sum({c})", f"fsum({c}::DOUBLE)", magnitude)
        case "favg":
            magnitude = f"fsum(abs({c}::DOUBLE))"
            return Output(f"avg({c})", f"favg({c}::DOUBLE)", magnitude)
        case "avg":
            return Output(f"avg({value})", f"avg({value})", close=True)
        case "min_by" | "max_by" as by:
            x = rng.choice([*columns, Column("u", "int", pa.int64())])
            way = "ASC" if by == "min_by" else "DESC"
            duck = f"first({x.name} ORDER BY {c} {way}, {order}) FILTER ({c} IS NOT NULL)"
            return Output(f"{by}({x.name}, {c})", duck)
        case name:
            return _plain(f"{name}({value})")


def query(rng: Random, table: Table, *, streamed: bool) -> Query:
    """A random query that streams take, too, where ``streamed``."""
    result = Query()
    columns = table.columns
    if rng.random() < 0.5:
        parts = [condition(rng, rng.choice(columns)) for _ in range(rng.randint(1, 3))]
        result.where = rng.choice([" AND ", " OR "]).join(f"({p})" for p in parts)
        if rng.random() < 0.2:
            result.where = f"NOT ({result.where})"
    keys = rng.randint(0 if not streamed else 1, 3)
    complete = "none"
    if streamed or (keys and rng.random() < 0.4):
        complete = "unique" if rng.random() < 0.15 else "time"
    chosen = [_key(rng, c) for c in rng.sample(columns, min(keys, len(columns)))]
    result.group = [k.text for k in chosen]
    if complete == "unique":
        result.unique = True
        chosen, result.group = [*chosen[:2], _plain("u")], [*result.group[:2], "u"]
    elif complete == "time":
        chosen, result.group = chosen[: keys - 1], result.group[: keys - 1]
        chosen.append(_time_key(rng, table.clock, result))
    result.keys = chosen
    result.distinct = bool(chosen) and not result.windowed and rng.random() < 0.1
    if not result.distinct:
        order = BY_TIME if result.timed else BY_ROW
        least = 0 if chosen else 1
        result.outputs = [_aggregate(rng, columns, order) for _ in range(rng.randint(least, 4))]
        if rng.random() < 0.25:
            result.having = rng.choice(["count(*) > 1", "count(*) % 2 = 1"])
    if rng.random() < 0.15:
        result.source = "(SELECT * FROM e) e"
    return result


def garbled(rng: Random, text: str) -> str:
    """The text with a few words more, fewer, or others."""
    words = re.findall(r"'[^']*'|\w+(?:\.\w+)*|[<>=!]+|\S", text)
    for _ in range(rng.randint(1, 3)):
        at, word = rng.randrange(len(words)), rng.choice([*_WORDS.split(), *words])
        words[at : at + rng.randrange(2)] = rng.choice([[], [word]])
    return " ".join(words or ["SELECT"])
