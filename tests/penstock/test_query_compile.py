"""The queries of the papers as printed, names, subqueries, output columns and parameters."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from sqlglot import parse_one

from penstock.errors import QueryError, SchemaError
from penstock.plan.band import BandForm
from penstock.plan.forms import join_form
from penstock.query import JoinQuery, RowsWindow, TimeWindow, compile_query
from penstock.query.expressions import Lowering
from penstock.query.scope import Scope
from penstock.query.time_rules import TimeRules
from penstock.zones import zone_of

A = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("x", pa.int32()), ("s", pa.string())])
B = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("y", pa.int32()), ("f", pa.float64())])
TIME = {"a": "t", "b": "t"}
WITHIN = "abs(a.t - b.t) < 5"


def compiled(text: str, schemas: dict | None = None, **options) -> JoinQuery:
    options.setdefault("time", TIME)
    return compile_query(text, schemas or {"a": A, "b": B}, **options)


def test_paper_1_orders_and_positions() -> None:
    """Figure 1 of paper 1, as printed."""
    columns = [("id", pa.int32()), ("long", pa.int32()), ("lat", pa.int32()), ("ts", pa.int64())]
    schemas = {"ORDER": pa.schema(columns), "GPS": pa.schema(columns)}
    query = compiled(
        "SELECT * FROM ORDER, GPS WHERE ABS(ORDER.long-GPS.long) + ABS(ORDER.lat-GPS.lat) < diff",
        schemas,
        time={"ORDER": "ts", "GPS": "ts"},
        params={"diff": 500},
        within=180,
    )
    assert query.window == TimeWindow(180, 180)
    for side in "lr":
        form = join_form(query.predicate, side).form
        assert isinstance(form, BandForm)
        assert len(form.tests) == 2
    names = [name for name, _ in query.select]
    assert names == [f"{s}_{c}" for s in ("ORDER", "GPS") for c in ("id", "long", "lat", "ts")]


def test_paper_1_addresses() -> None:
    """Section 5.1 of paper 1, as printed."""
    address = pa.schema([("sourceIP", pa.uint32()), ("destinationIP", pa.uint32())])
    query = compiled(
        "SELECT * FROM R, S WHERE R.sourceIP ⊕ S.sourceIP <diff "
        "OR R.destinationIP ⊕ S.destinationIP <diff",
        {"R": address, "S": address},
        time={},
        params={"diff": 256},
        rows=1000,
    )
    form = join_form(query.predicate, "l").form
    assert isinstance(form, BandForm)
    assert (len(form.tests), form.table) == (2, 0b1110)


def test_paper_4_rows() -> None:
    """Figure 1 of paper 4, as printed."""
    ports = pa.schema([("dstport", pa.uint16())])
    query = compiled(
        "SELECT uec.dstport FROM tsukuba[ROWS 100], uec[ROWS 100] "
        "WHERE tsukuba.dstport = uec.dstport",
        {"tsukuba": ports, "uec": ports},
        time={},
    )
    assert query.window == RowsWindow(100, 100)
    assert repr(query.predicate) == "l.dstport = r.dstport"
    assert [name for name, _ in query.select] == ["dstport"]


def test_names_in_any_case() -> None:
    query = compiled(f"select A.X, b.Y from A join B on {WITHIN.upper()} AND a.X = B.y")
    assert repr(query.predicate) == "l.x = r.y"
    assert [name for name, _ in query.select] == ["X", "Y"]


def test_tables_may_be_given_by_alias() -> None:
    query = compiled(f"SELECT 1 AS one FROM left_table a JOIN right_table b ON {WITHIN}")
    assert (query.left.table, query.right.table) == ("a", "b")


def test_a_self_join_reads_one_table_twice() -> None:
    text = "SELECT p.id, q.id AS other FROM a p JOIN a q ON abs(p.t - q.t) < 5 AND p.id < q.id"
    query = compiled(text, time={"p": "t", "q": "t"})
    assert (query.left.table, query.right.table) == ("a", "a")
    assert repr(query.predicate) == "l.id < r.id"


def test_star_prefixes_only_names_that_both_sides_have() -> None:
    query = compiled(f"SELECT * FROM a JOIN b ON {WITHIN}")
    names = [name for name, _ in query.select]
    assert names == ["a_id", "a_t", "x", "s", "b_id", "b_t", "y", "f"]
    query = compiled(f"SELECT b.*, a.x AS z FROM a JOIN b ON {WITHIN}")
    assert [name for name, _ in query.select] == ["id", "t", "y", "f", "z"]


def test_subqueries_filter_and_project() -> None:
    text = (
        "SELECT p.double, q.y FROM (SELECT id, t, 2 * x AS double FROM a WHERE x > 0) p JOIN "
        "(SELECT * FROM (SELECT * FROM b WHERE y <> 4) AS inner_b WHERE f IS NOT NULL) q "
        "ON abs(p.t - q.t) < 5 AND p.double = q.y WHERE p.id < 10"
    )
    query = compiled(text, time={"p": "t", "q": "t"})
    assert repr(query.left.filter) == "(0 < l.x) and (l.id < 10)"
    assert "is null" in repr(query.right.filter)
    assert repr(query.predicate) == "(2 * l.x) = r.y"
    assert query.columns_of("l") == ("id", "t", "x")
    assert query.output_columns_of("l") == ("x",)


def test_where_and_on_are_one_condition() -> None:
    query = compiled(f"SELECT a.x FROM a CROSS JOIN b WHERE a.x = b.y AND {WITHIN} AND b.y > 2")
    assert repr(query.predicate) == "l.x = r.y"
    assert repr(query.right.filter) == "2 < r.y"


def test_parameters() -> None:
    text = f"SELECT a.x FROM a JOIN b ON {WITHIN} AND b.f < most AND a.s = name AND a.x < exact"
    query = compiled(text, params={"most": 0.5, "name": "it's", "exact": Decimal("1.50")})
    assert repr(query.predicate) == "True"
    assert "0.5" in repr(query.right.filter)
    assert "'it\\'s'" in repr(query.left.filter) or '"it\'s"' in repr(query.left.filter)
    with pytest.raises(QueryError, match="parameter most is a list"):
        compiled(text, params={"most": [], "name": "", "exact": 1})


def test_a_column_hides_a_parameter() -> None:
    query = compiled(f"SELECT a.x FROM a JOIN b ON {WITHIN} AND a.x = y", params={"y": 3})
    assert repr(query.predicate) == "l.x = r.y"


# -- fixed-point columns --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["b.f", "B.F", "q.f", "Q.f"])
def test_a_scale_by_table_or_alias_in_any_case(name: str) -> None:
    text = "SELECT a.x FROM a JOIN b q ON abs(a.t - q.t) < 5 AND abs(a.x - q.f) < 0.5"
    query = compiled(text, time={"a": "t", "q": "t"}, scale={name: 3})
    assert query.scales == ((("r", "f"), 3),)
    assert isinstance(join_form(query.predicate, "l").form, BandForm)


def test_a_scale_below_a_subquery() -> None:
    text = "SELECT a.x FROM a JOIN (SELECT t, f * 2 AS g FROM b) q ON abs(a.t - q.t) < 5"
    query = compiled(text, time={"a": "t", "q": "t"}, scale={"b.f": 2})
    assert query.scales == ((("r", "f"), 2),)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ({"f": 2}, "scale needs table.column, not 'f'"),
        ({"b.q": 2}, "scale is given for b.q, which is no column of a base table"),
        ({"b.f": 19}, "scale of b.f must be 0 to 18, not 19"),
    ],
)
def test_scales_that_cannot_be(scale: dict, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        compiled(f"SELECT a.x FROM a JOIN b ON {WITHIN}", scale=scale)


def test_a_scale_is_for_numbers() -> None:
    with pytest.raises(SchemaError, match="a fixed-point scale is for float columns"):
        compiled(f"SELECT a.x FROM a JOIN b ON {WITHIN}", scale={"a.s": 2})


# -- columns of other types -----------------------------------------------------------------------


def test_a_list_column_may_be_selected_but_not_joined_on() -> None:
    schemas = {"a": A.append(pa.field("tags", pa.list_(pa.int32()))), "b": B}
    query = compiled(f"SELECT a.tags FROM a JOIN b ON {WITHIN}", schemas)
    assert query.output_columns_of("l") == ("tags",)
    with pytest.raises(QueryError, match=r"a\.tags is of type list<.*not compared, sorted"):
        compiled(f"SELECT a.x FROM a JOIN b ON {WITHIN} AND a.tags = b.y", schemas)


def test_a_tree_made_on_the_way_is_not_taken_for_another() -> None:
    lowering = Lowering(Scope(()), {}, {}, TimeRules(zone_of("UTC")))
    # Each tree is gone before the next is made, which then may have its address.
    assert [lowering.lower(parse_one(str(k))).attr for k in range(200)] == list(range(200))
