"""Lists, structs and maps are passed on by joins, and their elements are computed with."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError
from penstock.host.device.registry import open_device
from penstock.host.relation.folder.build import RelationOptions, build
from penstock.query.compiler import compile_query
from tests.host.kit.serving import serving_cpu
from tests.kit.nested import (
    NEAR,
    TIME,
    counted,
    ids_of,
    joined_by_id,
    nested_table,
    select,
)

HOWS = ["", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"]


@pytest.fixture(scope="module")
def tables():
    return {"lt": nested_table(1, 150, 0), "rt": nested_table(2, 120, 1000)}


@pytest.fixture(scope="module")
def expected(tables):
    def make(how: str, on: str = NEAR, **options):
        ids = penstock.sql(ids_of(how, on), tables, **options)
        assert ids.num_rows > 20
        return joined_by_id(ids, *tables.values())

    return make


@pytest.mark.parametrize("how", HOWS)
def test_tables(tables, expected, how):
    found = penstock.sql(select("*", how), tables, time=TIME)
    assert counted(found) == expected(how, time=TIME)
    own = tables["lt"].drop_columns(["coded"]).schema
    prefix = "" if how.endswith(("SEMI", "ANTI")) else "a_"
    assert [found.schema.field(prefix + f.name).type for f in own] == own.types


@pytest.mark.parametrize("how", HOWS)
def test_streams(tables, expected, how):
    schemas = {name: table.schema for name, table in tables.items()}
    with penstock.stream(select("*", how), schemas, time=TIME) as running:
        found = pushed(running, tables)
    assert counted(found) == expected(how, time=TIME)


def pushed(running, tables) -> pa.Table:
    found = []
    for first in range(0, 150, 40):
        for name, table in zip("ab", tables.values(), strict=True):
            running.push(name, table.slice(first, 40))
        found.append(running.poll())
    return pa.concat_tables([*found, running.close()])


def test_rows_windows(tables, expected):
    found = penstock.sql(select("*", "FULL", "a.k = b.k"), tables, time=TIME, rows=9)
    assert counted(found) == expected("FULL", "a.k = b.k", time=TIME, rows=9)


def test_workers(tables, expected):
    found = penstock.sql(select("*", "FULL"), tables, time=TIME, workers=2)
    assert counted(found) == expected("FULL", time=TIME)


@pytest.mark.slow
def test_workers_of_streams(tables, expected):
    schemas = {name: table.schema for name, table in tables.items()}
    with penstock.stream(select("*", "LEFT"), schemas, time=TIME, workers=2) as running:
        assert counted(pushed(running, tables)) == expected("LEFT", time=TIME)


def test_a_device_of_a_server(tables, expected):
    with serving_cpu() as address, open_device("remote", address=address) as device:
        found = penstock.sql(select("*", "LEFT"), tables, time=TIME, device=device)
    assert counted(found) == expected("LEFT", time=TIME)


@pytest.mark.parametrize("how", ["", "LEFT", "LEFT SEMI"])
def test_relations(tables, expected, tmp_path, how):
    build(tables["rt"], str(tmp_path / "r"), RelationOptions(key=("k",))).close()
    on = "a.k = b.k AND a.id % 7 = b.id % 7"
    given = {**tables, "rt": penstock.relation(tmp_path / "r")}
    assert counted(penstock.sql(select("*", how, on), given)) == expected(how, on)


def test_named_columns(tables, expected):
    names = ["tags", "pos", "m", "deep"]
    found = penstock.sql(
        select(", ".join(f"a.{n} AS a{n}, b.{n} AS b{n}" for n in names)), tables, time=TIME
    )
    ids = penstock.sql(ids_of(""), tables, time=TIME)
    for name in names:
        for alias, table in zip("ab", tables.values(), strict=True):
            own = dict(zip(table["id"].to_pylist(), table[name].to_pylist(), strict=True))
            wanted = [own[n] for n in ids[f"{alias}i"].to_pylist()]
            assert sorted(map(repr, found[alias + name].to_pylist())) == sorted(map(repr, wanted))


def test_a_long_list():
    values = pa.array([list(range(1_000_000)), None, []], pa.list_(pa.int64()))
    left = pa.table({"id": [0, 1, 2], "t": [0, 1, 2], "ns": values})
    right = pa.table({"id": [0, 1, 2], "t": [0, 1, 2]})
    found = penstock.sql(
        select("a.id AS ai, b.id AS bi, a.ns", on="b.t BETWEEN a.t - 1 AND a.t + 1"),
        {"lt": left, "rt": right},
        time=TIME,
    )
    for row in range(found.num_rows):
        assert found["ns"][row] == values[found["ai"][row].as_py()]
    assert found.num_rows == 7


#: As Spark computes them, outside of its ANSI mode.
VALUES = {
    "a.pos.x": lambda a: a["pos"] and a["pos"]["x"],
    "a.tags[1]": lambda a: item(a["tags"], 1),
    "a.ns[a.k]": lambda a: item(a["ns"], a["k"]),
    "a.ns[a.k - 2]": lambda a: item(a["ns"], a["k"] - 2),
    "a.pair[0]": lambda a: item(a["pair"], 0),
    "a.long[0]": lambda a: item(a["long"], 0),
    "element_at(a.ns, -1)": lambda a: a["ns"][-1] if a["ns"] else None,
    "a.m['z']": lambda a: dict(a["m"] or []).get("z"),
    "size(a.tags)": lambda a: None if a["tags"] is None else len(a["tags"]),
    "size(a.m)": lambda a: None if a["m"] is None else len(a["m"]),
    "a.deep.ls[0].m[2].y": lambda a: deep(a["deep"]),
    "a.pos IS NULL": lambda a: a["pos"] is None,
}


def item(values, place):
    return values[place] if values is not None and 0 <= place < len(values) else None


def deep(value):
    first = item(value["ls"], 0) if value else None
    found = dict(first["m"] or []).get(2) if first else None
    return found["y"] if found else None


@pytest.mark.parametrize("kind", ["tables", "streams"])
def test_elements_in_select(tables, kind):
    text = select("a.id AS id, " + ", ".join(f"{e} AS c{n}" for n, e in enumerate(VALUES)))
    if kind == "tables":
        found = penstock.sql(text, tables, time=TIME)
    else:
        schemas = {name: table.schema for name, table in tables.items()}
        with penstock.stream(text, schemas, time=TIME) as running:
            found = pushed(running, tables)
    own = {row["id"]: row for row in tables["lt"].to_pylist()}
    assert found.num_rows > 50
    for row in found.to_pylist():
        wanted = {f"c{n}": value(own[row["id"]]) for n, value in enumerate(VALUES.values())}
        assert {"id": row["id"], **wanted} == row


def test_elements_in_conditions(tables):
    text = f"{ids_of('')} AND a.pos.x = b.pos.x WHERE array_contains(a.tags, 'x')"
    found = penstock.sql(text, tables, time=TIME).to_pylist()
    own = {row["id"]: row for table in tables.values() for row in table.to_pylist()}
    ids = penstock.sql(ids_of(""), tables, time=TIME).to_pylist()

    def holds(ids) -> bool:
        a, b = own[ids["ai"]], own[ids["bi"]]
        same = a["pos"] and b["pos"] and a["pos"]["x"] is not None
        return bool(same and a["pos"]["x"] == b["pos"]["x"] and "x" in (a["tags"] or []))

    wanted = [pair for pair in ids if holds(pair)]
    assert wanted
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (select("a.id") + " AND a.pos = b.pos", r"a\.pos is of type struct<.*as in a\.pos\.x "),
        (select("a.id") + " WHERE a.tags < b.tags", r"a\.tags is .*array<.*as in a\.tags\[0\], or"),
        (select("a.id") + " WHERE a.m IN (b.m)", r"a\.m is of type map<.*as in a\.m\['k'\], or"),
        (select("a.tags, count(*)") + " GROUP BY a.tags", "not compared, sorted or grouped by"),
        (select("a.tags") + " ORDER BY a.tags", r"a\.tags is .*not compared, sorted"),
        (select("a.tags") + " ORDER BY tags", r"a\.tags is .*not compared, sorted"),
        (select("DISTINCT a.pos"), r"write its fields, as in a\.pos\.x"),
        (select("max(a.tags)"), r"a\.tags is .*not compared"),
        (select("a.id") + " AND a.deep.ls[0] = b.deep.ls[0]", r"a\.deep\.ls\[0\] is of type str"),
    ],
)
def test_they_are_not_compared(tables, text, message):
    with pytest.raises(QueryError, match=message):
        penstock.sql(text, tables, time=TIME)


def test_one_join_says_so_by_itself(tables):
    schemas = {name: table.schema for name, table in tables.items()}
    text = select("a.tags") + " AND a.tags = b.tags"
    with pytest.raises(QueryError, match=re.escape("write an element of it, as in a.tags[0]")):
        compile_query(text, schemas, time=TIME)
