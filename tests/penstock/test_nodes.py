"""Each argument that the parser's classes declare is read on every path, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from penstock.around.duckdb_sql import translation
from penstock.errors import PenstockError
from penstock.plan.group_query import GroupQuery
from penstock.query import aggregates, compiler, expressions, nodes, operators
from penstock.query.dialect import Penstock
from penstock.query.parse import plain
from tests.penstock.kit.duckdb_text import text_and_calls

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("t", pa.timestamp("us")),
        ("d", pa.date32()),
        ("n", pa.list_(pa.int64())),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("r", pa.struct([("f", pa.int64())])),
    ]
)
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
OPTIONS = {"time": {"a": "t", "b": "t"}, "params": {"p": 1}}
WINDOW = "b.t BETWEEN a.t - INTERVAL 5 SECONDS AND a.t"

#: Conditions and values, which stand in ON, in an output column and in a key of GROUP BY.
VALUES = """
a.k + 1 > b.k - 2 AND NOT a.k * 2 = 3 OR a.k % 2 <> 1; a.k / 2 < 3; a.k DIV 2 <= 3; -a.k >= ~a.id
(a.k & 1) + (a.k | 2) + (a.k ^ 3) > (a.k << 1) + (a.k >> 1); a.k <=> b.k
a.k IS DISTINCT FROM b.k; a.k IN (1, 2); a.k IS NULL; a.s LIKE 'x%'
a.s ILIKE 'x%'; a.s NOT LIKE 'x%'
a.s LIKE 'x%' ESCAPE '/'; a.s LIKE ANY ('x%', 'y'); a.s LIKE ALL ('x', 'y'); a.s || 'x' = 'y'
CASE a.k WHEN 1 THEN 2 ELSE 3 END > 2; IF(a.k > 1, 2, 3) > 2; CAST(a.k AS DECIMAL(9, 2)) > 1
TRY_CAST(a.s AS INT) > 1; least(a.k, 2) > greatest(b.k, 3); round(a.x, 2) > 1; :p > a.k
a.s = X'1F'; a.s = r'x'; a.t > TIMESTAMP '2024-01-01 00:00:00'
a.t > b.t - INTERVAL '1 02' DAY TO HOUR
date_add(a.d, 3) > a.d; date_sub(a.d, 3) > a.d; datediff(a.d, b.d) > 1; trunc(a.d, 'MONTH') > a.d
timestampadd(HOUR, 3, a.t) > a.t; timestampdiff(HOUR, a.t, b.t) > 3; date_trunc('HOUR', a.t) > b.t
unix_timestamp(a.t) > 3; date_format(a.t, 'yyyy') = 'x'; to_date(a.s) > a.d; concat(a.s, 'x') = 'x'
concat_ws(',', a.s, 'x') = 'x'; sort_array(a.n, FALSE)[0] > 1; map_contains_key(a.m, 'x')
element_at(a.n, 1) > 1; lpad(a.s, 3, 'x') = 'x'; regexp_extract(a.s, 'x(y)', 0) = 'x'; a.r.f > 2
regexp_replace(a.s, 'x', 'y') = 'x'; replace(a.s, 'x', 'y') = 'x'; repeat(a.s, 2) = 'x'
split_part(a.s, 'x', 1) = 'x'; substring_index(a.s, 'x', 1) = 'x'; locate('x', a.s, 2) > 2
substring(a.s, 1, 2) = 'x'; translate(a.s, 'x', 'y') = 'x'; trim(LEADING 'x' FROM a.s) = 'x'
from_utc_timestamp(a.t, 'UTC') > a.t; to_utc_timestamp(a.t, 'UTC') > a.t
dateadd(DAY, 3, a.d) > a.d; day(a.t) > 1; month(a.t) > 1; year(a.t) > 1
date_add(DAY, 3, a.d) > a.d; transform(a.n, v -> v + 1)[0] > 1; sequence(1, 3, 2)[0] > a.k
CAST(named_struct('f', a.k) AS STRUCT<f: INT>).f > 1; a.k BETWEEN SYMMETRIC 3 AND 1
(a.k, 1) = (1, 2); CAST(a.s AS VARCHAR(9)) = 'x'
to_timestamp(a.s, 'yyyy-MM-dd') > a.t; from_unixtime(a.k, 'yyyy') = 'x'
to_date(a.s, 'yyyy-MM-dd') > a.d; make_timestamp(a.k, 1, 2, 3, 4, 5) > a.t
"""
#: Whole queries.
QUERIES = (
    "SELECT DISTINCT a.k FROM a",
    "SELECT count(*) AS n, a.k FROM a GROUP BY a.k HAVING count(a.x) > 1",
    "SELECT count(DISTINCT a.k) AS n FROM a GROUP BY ALL",
    "SELECT a.k, a.s, count(*) AS n FROM a GROUP BY ROLLUP (a.k, a.s)",
    "SELECT a.k, a.s, count(*) AS n FROM a GROUP BY CUBE (a.k, a.s)",
    "SELECT a.k, a.s, count(*) AS n FROM a GROUP BY GROUPING SETS ((a.k), (a.s))",
    f"SELECT * EXCEPT (t) FROM (SELECT a.* FROM a LEFT JOIN b ON {WINDOW}) AS q ORDER BY k DESC",
    "SELECT a.k FROM a LEFT JOIN b USING (k) LIMIT 3 OFFSET 2",
    "WITH q(u) AS (SELECT a.k FROM a WHERE a.k > 1) "
    "SELECT q.u FROM q WHERE q.u IN (SELECT b.k FROM b)",
    "SELECT a.k FROM a UNION SELECT b.k FROM b ORDER BY k LIMIT 3",
    "SELECT a.k FROM a EXCEPT SELECT b.k FROM b",
    "SELECT a.k FROM a INTERSECT SELECT b.k FROM b",
    "SELECT lag(a.k, 1, 0) OVER (PARTITION BY a.s ORDER BY a.t DESC NULLS LAST) AS g FROM a "
    "QUALIFY row_number() OVER (ORDER BY a.t) = 1",
    "SELECT lead(a.k, 1, 0) OVER (ORDER BY a.t) AS g, nth_value(a.k, 2) OVER w AS v FROM a "
    "WINDOW w AS (ORDER BY a.k ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
    "SELECT last_value(a.k) IGNORE NULLS OVER (ORDER BY a.t) AS g FROM a",
    "SELECT first_value(a.k) RESPECT NULLS OVER (ORDER BY a.t) AS g FROM a",
    "SELECT sum(a.k) FILTER (WHERE a.k > 1) AS g, max_by(a.k, a.x) AS h FROM a",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a.x) AS g FROM a",
    "SELECT percentile(a.x, 0.5) AS g, explode(a.n) AS h, size(a.n) AS i, initcap(a.s) AS j FROM a",
    "SELECT collect_list(a.k) AS g FROM a",
    "SELECT a.k, e.c FROM a LATERAL VIEW OUTER explode(a.n) e AS c",
    "SELECT v.c FROM VALUES (1), (2) AS v(c)",
    "SELECT c FROM unnest(array(1, 2)) AS u(c)",
    "SELECT * FROM (SELECT k, s, x FROM a) "
    "PIVOT (sum(x) AS g, max(x) AS h FOR s IN ('u' AS w, 'v'))",
    f"SELECT a.k FROM a NATURAL JOIN b WHERE {WINDOW}",
    "SELECT stack(1, a.k, a.s) AS (u, v) FROM a",
)
SAMPLES = (
    *(
        query
        for value in VALUES.replace("\n", ";").split(";")
        if value.strip()
        for query in (
            f"SELECT a.id FROM a JOIN b ON {WINDOW} AND {value.strip()}",
            f"SELECT {value.strip()} AS z FROM a JOIN b ON {WINDOW}",
        )
    ),
    *QUERIES,
)

#: Every class that somebody reads.
CLASSES = sorted(
    {
        *nodes.TAKEN,
        *(expressions._FORMS | operators.BINARY_OPS | operators.JUNCTIONS | operators.TIME_OPS),
        *(operators.BY_TYPE | operators.TIME_FUNCTIONS | aggregates.FUNCTIONS),
        *(*translation._SAME, *translation._REWRITTEN),
    },
    key=lambda kind: kind.__name__,
)


def parsed(text: str) -> exp.Query:
    """The tree as the parser gives it."""
    (tree,) = Penstock().parse(text)
    assert isinstance(tree, exp.Query)
    return tree


def calls(kind: type[exp.Expr]) -> Iterator[str]:
    """Queries with a function that no sample has."""
    for name in kind.sql_names() if issubclass(kind, exp.Func) else ():
        for given in ("a.k", "a.k, a.id", "a.s, 'x', 'y'"):
            value = f"{name}({given})"
            yield f"SELECT a.id FROM a JOIN b ON {WINDOW} AND {value} = 1"
            yield f"SELECT {value} AS z FROM a JOIN b ON {WINDOW}"


def has_whole(text: str, kind: type[exp.Expr]) -> bool:
    """Whether a query has a node of a class, with all that it needs."""
    with suppress(Exception):  # another number of arguments
        node = parsed(text).find(kind)
        needed = [key for key, is_needed in kind.arg_types.items() if is_needed]
        return node is not None and all(map(node.args.get, needed))
    return False


def engine(tree: exp.Query, **options: Any) -> Any:
    """What the engine plans; names of outputs and texts do not count."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "parse", lambda text: tree)
        query = compiler._compile("", SCHEMAS, compiler.QueryOptions(**(options or OPTIONS)), False)
    made = query.aggregation
    groups = made and replace(
        made,
        aggregates=tuple(replace(one, text="") for one in made.aggregates),
        select=tuple(("", value) for _, value in made.select),
    )
    if isinstance(query, GroupQuery):
        return query.source, groups
    outputs = tuple(value for _, value in query.select)
    return query.sides, query.window, query.predicate, outputs, groups, query.kind


PATHS = {
    "engine": engine,
    "look-up": lambda tree: engine(tree, relation="b"),
    "DuckDB": lambda tree: text_and_calls(tree, SCHEMAS),
    "Spark": lambda tree: tree.sql(dialect=Penstock),
}


def run(path: str, tree: exp.Query) -> Any:
    """What a path makes of a tree; None if it refuses it."""
    try:
        nodes.check_tree(tree)
        return PATHS[path](plain(tree))
    except Exception:  # also of a tree that no text gives
        return None


def altered(text: str, kind: type[exp.Expr], key: str) -> Iterator[exp.Query]:
    """Trees of a text in which an argument of the first node of a class has another value."""
    value = parsed(text).find(kind).args.get(key)
    column = exp.column("x", table="a")
    others: list[Any] = [[column] if key == "expressions" else column]
    if key not in nodes.OPERANDS:
        others = [*others, True] if kind is not exp.Join else ["SEMI"]
    if key == "alias":
        others = [exp.TableAlias(this=exp.to_identifier("y"))]
    if isinstance(value, exp.Var):
        others = [exp.var("YEAR")]
    elif value or isinstance(value, bool):
        others = [not value if isinstance(value, bool) else None]
    for other in others:
        tree = parsed(text)
        tree.find(kind).set(key, other)
        yield tree


#: Arguments whose value makes no difference there, and why.
EQUAL = {
    ("StrToUnix", "format"): "it is of texts, and times are counted",
    ("Alias", "alias"): "names of outputs do not count",
    ("Identifier", "this"): "names of outputs do not count",
    ("Select", "hint"): "a hint changes no rows",
    ("Select", "with_"): "it has no query in it",
    ("ArraySort", "nulls_first"): "the function's name says so",
    ("Bracket", "safe"): "NULL out of range, as docs/joins/sql.md says",
    ("Bracket", "offset"): "the parser notes where element_at begins",
    ("Identifier", "quoted"): "all names are quoted there",
    ("TsOrDsAdd", "unit"): "the parser makes it of days only",
    ("Column", "catalog"): "without a database it is none",
    ("Column", "table"): "only one table has the column",
    ("DataType", "nested"): "the type says so, too",
    ("Group", "all"): "it stands alone",
    ("If", "false"): "a branch of CASE has none",
    ("Pivot", "columns"): "the parser derives it",
    ("Pivot", "pivot_column_naming"): "the parser derives it",
    ("Window", "over"): "the parser notes the word OVER",
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_other_arguments_are_refused(kind):
    for key in kind.arg_types.keys() - nodes.TAKEN.get(kind, nodes.OPERANDS):
        node = kind(**{"this": exp.column("x"), key: exp.column("x")})
        with pytest.raises(PenstockError, match="is not supported"):
            nodes.check_function(node)


#: Classes that the short run looks at.
SHORT = (exp.Like, exp.Is, exp.Between, exp.In, exp.TryCast, exp.Exists, exp.ArraySize, exp.Count)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.__name__, marks=() if kind in SHORT else pytest.mark.slow)
        for kind in CLASSES
    ],
)
def test_arguments_are_read_or_refused(kind, texts):
    own = texts.get(kind) or [text for text in calls(kind) if has_whole(text, kind)]
    assert kind not in nodes.TAKEN or own, "no sample has one"
    unread = set()
    for key in nodes.TAKEN.get(kind, nodes.OPERANDS) & kind.arg_types.keys():
        for text in own[:2]:
            for path in PATHS:
                before = run(path, parsed(text))
                if before is None:
                    continue
                for tree in altered(text, kind, key):
                    if run(path, tree) == before:
                        unread.add((kind.__name__, key, path))
    assert {one for one in unread if one[:2] not in EQUAL} == set()


@pytest.fixture(scope="module")
def texts() -> dict[type[exp.Expr], list[str]]:
    """Samples by the classes of nodes in them."""
    every: dict[type[exp.Expr], list[str]] = {}
    for text in SAMPLES:
        for kind in {type(node) for node in parsed(text).walk()}:
            every.setdefault(kind, []).append(text)
    return every
