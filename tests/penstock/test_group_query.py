"""A SELECT over one table, or over looked-up rows, to a GroupQuery."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import QueryError
from penstock.expr import ops
from penstock.expr.node import show
from penstock.expr.periods import as_tumbling
from penstock.plan.group_query import GroupQuery, is_per_row, lookup_of, require_closing, time_key
from penstock.plan.query import JoinQuery
from penstock.query.compiler import compile_query, compile_select

ADS = pa.schema(
    [
        ("ad", pa.int64()),
        ("kind", pa.int8()),
        ("t", pa.timestamp("ms")),
        ("i", pa.int64()),
        ("f", pa.float64()),
    ]
)
CAMPAIGNS = pa.schema([("ad", pa.int64()), ("campaign", pa.string()), ("t", pa.int32())])
SCHEMAS = {"ads": ADS, "c": CAMPAIGNS}
JOIN = "FROM ads e JOIN c ON e.ad = c.ad"


def compiled(text: str, **options) -> GroupQuery:
    found = compile_select(text, SCHEMAS, **options)
    assert isinstance(found, GroupQuery)
    return found


@pytest.mark.parametrize(
    ("text", "options", "time"),
    [
        ("SELECT count(*) FROM ads", {}, None),
        ("SELECT ad, count(*) FROM ads GROUP BY ad", {}, None),
        ("SELECT count(*) FROM ads GROUP BY window(t, '1 second')", {}, ("l.t", "ms")),
        ("SELECT count(*) FROM ads GROUP BY date_trunc('hour', t), ad", {}, ("l.t", "ms")),
        ("SELECT DISTINCT t FROM ads", {}, ("l.t", "ms")),
        ("SELECT count(*) FROM ads GROUP BY window(i, 10)", {}, ("l.i", "")),
        ("SELECT count(*) FROM ads GROUP BY i - i % 7", {"time": {"ads": "i"}}, ("l.i", "")),
        ("SELECT count(*) FROM ads a GROUP BY window(i, '1 second')", {"time": {"a": "i:us"}},
         ("l.i", "us")),
        # What is named counts, not what a window is over.
        ("SELECT count(*) FROM ads GROUP BY window(t, '1 second')", {"time": {"ads": "i"}}, None),
        ("SELECT count(*) FROM ads GROUP BY -i", {"time": {"ads": "i"}}, None),
    ],
)  # fmt: skip
def test_the_event_time_is_that_which_a_key_follows(text, options, time):
    source = compiled(text, **options).source
    found = None if source.time is None else (show(source.time), source.unit)
    assert found == time


def test_conditions_filter_the_source():
    query = compiled(
        "SELECT q.ad, sum(q.g) FROM (SELECT ad, f + 1 AS g FROM ads WHERE kind = 0) q "
        "WHERE q.g > 2 AND 1 = 1 GROUP BY q.ad"
    )
    assert show(query.source.filter) == "l.kind = 0 AND l.f + 1 > 2.0" or (
        "l.kind = 0" in show(query.source.filter) and "l.f" in show(query.source.filter)
    )
    assert query.columns_of("l") == ("ad", "f", "kind")
    assert query.names == {"l": "q"}
    assert compiled("SELECT ad FROM ads WHERE 1 = 0 GROUP BY ad").source.filter is ops.FALSE


def test_only_windows_leave_rows_without_a_time_out():
    assert compiled("SELECT count(*) FROM ads GROUP BY window(t, '1 second')").windowed
    assert compiled("SELECT count(*) FROM ads GROUP BY window(t, '1 second').end").windowed
    assert not compiled("SELECT count(*) FROM ads GROUP BY date_trunc('hour', t)").windowed
    other = compiled(
        "SELECT count(*) FROM ads GROUP BY window(i, 5), window(t, '1 second')",
        time={"ads": "t"},
    )
    assert other.windowed
    assert "i" in show(other.source.filter)  # no row without i is in its window


def test_groups_close_by_the_key_that_follows_the_time():
    query = compiled("SELECT ad, count(*) FROM ads GROUP BY ad, window(t, '1 second')")
    key = time_key(query)
    assert key is not None
    assert (key.index, key.side) == (1, "l")
    require_closing(query)
    with pytest.raises(QueryError, match=r"add the event time to GROUP BY.*unique=\{'ads'"):
        require_closing(compiled("SELECT ad, count(*) FROM ads GROUP BY ad"))
    unique = compiled("SELECT ad, count(*) FROM ads GROUP BY ad", unique={"ads": "ad"})
    assert is_per_row(unique)
    require_closing(unique)


def test_a_look_up_gives_what_the_groups_need():
    query = compiled(
        f"SELECT c.campaign, window.start AS w, max(e.i + c.t) AS m {JOIN} WHERE e.kind = 0 "
        "GROUP BY c.campaign, window(e.t, '10 seconds')",
        relation="c",
    )
    assert query.lookup is not None
    assert lookup_of(query) is query.lookup
    assert [name for name, _ in query.lookup.select] == ["l.i", "l.t", "r.campaign", "r.t"]
    assert show(query.lookup.left.filter) == "l.kind = 0"
    assert query.source.alias == "e"
    assert query.entry.time is not None
    assert show(query.entry.time) == "l.t"
    assert as_tumbling(query.aggregation.keys[1]) is not None
    require_closing(query)


def test_a_relation_on_the_left_is_no_stream():
    query = compiled(
        "SELECT count(*) AS n FROM c JOIN ads e ON e.ad = c.ad GROUP BY window(e.t, '1 minute')",
        relation="c",
    )
    assert query.entry.table == "ads"
    assert query.entry.time is not None
    assert show(query.entry.time) == "l.t"


def test_rows_that_are_folded_over_their_matches_stay_a_join():
    for text, options in (
        (f"SELECT e.ad, count(*) {JOIN} GROUP BY e.ad", {}),
        (
            f"SELECT e.ad, count(*) {JOIN} GROUP BY e.ad, window(e.t, '1 second')",
            {"unique": {"e": "ad"}},
        ),
    ):
        assert isinstance(compile_select(text, SCHEMAS, relation="c", **options), JoinQuery)
    # Spark merges groups itself.
    text = f"SELECT e.ad, count(*) {JOIN} GROUP BY e.ad, window(e.t, '1 second')"
    assert isinstance(compile_query(text, SCHEMAS, relation="c"), JoinQuery)
    assert isinstance(compile_select(text, SCHEMAS, relation="c"), GroupQuery)


def test_a_kept_query_is_that_of_its_relation():
    text = "SELECT e.ad, c.campaign FROM ads e, c WHERE e.ad = c.ad"
    compile_select(text, SCHEMAS, relation="c")
    with pytest.raises(QueryError, match="no window"):
        compile_select(text, SCHEMAS)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("SELECT count(*) FROM ads", {"relation": "c"}, "does not name the relation c"),
        ("SELECT * FROM ads GROUP BY ad", {}, r"\* cannot be grouped"),
        ("SELECT count(*) FROM ads GROUP BY window(i, '1 second')", {}, "declare the unit"),
        ("SELECT ads.*, count(*) FROM ads", {}, "cannot be grouped"),
        ("SELECT DISTINCT * FROM ads", {}, r"\* cannot be grouped; list the columns"),
        ("SELECT count(*) FROM ads", {"unique": {"ads": "x"}}, "unique: unknown column x"),
        ("SELECT count(*) FROM ads HAVING ad > 1", {}, "ad is neither a key"),
        ("SELECT count(*) FROM (SELECT ad FROM ads)", {}, "needs an alias"),
        ("SELECT count(DISTINCT ad, i) FROM ads", {}, "supported: add ad, i to GROUP BY, and"),
        ("SELECT min_by(ad, campaign) FROM c", {}, "not string: add campaign to GROUP BY, and"),
        (f"SELECT min(c.campaign) {JOIN}", {"relation": "c"}, "gives the pairs, and aggregate"),
    ],
)  # fmt: skip
def test_refusals(text, options, message):
    with pytest.raises(QueryError, match=message):
        compile_select(text, SCHEMAS, **options)


def test_a_join_is_needed_where_only_joins_are_run():
    with pytest.raises(QueryError, match="the query has one: group it elsewhere"):
        compile_query("SELECT count(*) FROM ads", SCHEMAS, instead="group it elsewhere")
