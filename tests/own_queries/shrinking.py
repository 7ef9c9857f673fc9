"""Make a finding smaller: fewer rows, items and conditions, as long as the verdict stays."""

import copy
from dataclasses import replace

from tests.own_queries.queries import Case, Query
from tests.own_queries.running import verdict


def shrink(case: Case, seed: int, what: str, tries: int = 150) -> Case:
    """Return a smaller case with the same verdict."""
    left = tries

    def holds(smaller: Case) -> bool:
        nonlocal left
        left -= 1
        try:
            return left > 0 and verdict(smaller, seed)[0] == what
        except Exception:
            return False

    changed = True
    while changed and left > 0:
        changed = False
        for smaller in steps(case):
            if left <= 0:
                break
            if holds(smaller):
                case, changed = smaller, True
                break
    return case


def steps(case: Case):
    """Yield cases with something less."""
    for name, data in case.data.items():
        size = len(data)
        chunk = max(1, size // 2)
        while size and chunk:
            for start in range(0, size, chunk):
                places = [p for p in range(size) if not start <= p < start + chunk]
                yield replace(case, data=case.data | {name: data.keep(places)})
            chunk //= 2
            if chunk and size > 8 and chunk < size // 8:
                break
    for query in smaller_queries(case.query):
        yield replace(case, query=query)


def smaller_queries(query: Query):
    """Yield queries with an item or a condition less."""
    if query.limit is not None:
        yield replace(query, limit=None)
    if query.order:
        yield replace(query, order=[], limit=None)
    if query.having:
        yield replace(query, having=None)
    if query.qualify:
        yield replace(query, qualify=None)
    for n in range(len(query.where)):
        yield replace(query, where=query.where[:n] + query.where[n + 1 :])
    if not query.order and len(query.items) > 1:
        for n in range(len(query.items)):
            yield replace(query, items=query.items[:n] + query.items[n + 1 :])
    for n in range(len(query.keys)):
        yield replace(query, keys=query.keys[:n] + query.keys[n + 1 :])
    for j, join in enumerate(query.joins):
        for n in range(len(join.conditions)):
            joins = copy.copy(query.joins)
            joins[j] = replace(join, conditions=join.conditions[:n] + join.conditions[n + 1 :])
            yield replace(query, joins=joins)


def report(case: Case, seed: int) -> str:
    """Write a case as a script, with what comes and what should come."""
    lines = [
        f"# seed {seed}, {case.mode}",
        "import pyarrow as pa, penstock, datetime, decimal",
        "from decimal import Decimal",
    ]
    sql = case.query.sql()
    for name, data in case.data.items():
        if f" {name} " not in sql:
            continue
        lines.append(f"{name} = pa.table({{")
        for column in data.columns:
            array = column.arrow()
            if f".{column.name}" not in sql:
                continue
            values = array.to_pylist()
            if column.type.kind in ("ts", "ntz", "dur"):
                values = [None if v is None else v for v in array.cast(pa.int64()).to_pylist()]
            lines.append(f"  {column.name!r}: pa.array({values}).cast(pa.{_named(array.type)}),")
        lines.append("})")
    lines += [f'sql = """{sql}"""', f"options = {case.options}"]
    try:
        lines.append(f"# expected {case.query.tuples(case.data)[:12]}")
    except Exception as error:
        lines.append(f"# expected {error!r}")
    what, why = verdict(case, seed)
    lines += [f"# {what}: " + why.replace("\n", "\n# ")]
    return "\n".join(lines) + "\n"


import pyarrow as pa  # noqa: E402


def _named(of: pa.DataType) -> str:
    if pa.types.is_timestamp(of):
        return f"timestamp({of.unit!r}, {of.tz!r})"
    if pa.types.is_duration(of):
        return f"duration({of.unit!r})"
    if pa.types.is_dictionary(of):
        return "dictionary(pa.int32(), pa.string())"
    name = str(of).replace("float", "float32").replace("double", "float64").replace("bool", "bool_")
    return name if "(" in name else f"{name}()".replace("[day]", "")
