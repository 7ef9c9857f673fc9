"""What people ask about windowed joins: on tables and on streams, with Spark's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.errors import QueryError
from penstock.host.join.stream import JoinStream
from penstock.host.workers.here import GroupStream
from tests.penstock.kit.people import Asked, counted, every_query

#: What is refused on tables, and what is said.
REFUSED = {
    "081": "format_number takes a double; cast the number to DOUBLE",
    "082": "function soundex is not supported",
    "112": "not compared, sorted or grouped by; write its fields",
    "116": "PIVOT is not supported; write count",
    "120": "function time_bucket is not supported",
}
#: What is refused on streams besides.
REFUSED_ON_STREAMS = {
    **dict.fromkeys(("007", "069", "078"), "a stream is joined with one other"),
    "061": "the join has no window",
    "040": "another join needs all rows",
    "044": "the join has no window",
    "060": "not supported",
    "070": "DISTINCT needs all rows",
    "079": "GROUP BY is not supported in a subquery",
    "081": REFUSED["081"],
    "082": REFUSED["082"],
}
#: What users of a stream declare besides, as the message for it says.
UNIQUE = {
    "023": {"t": "trade_id"},
    "024": {"a": "alert_id"},
    "025": {"e": "alert_id"},
    "035": {"a": "alert_id"},
    "077": {"a": "alert_id"},
    "080": {"x": "conn_id"},
}
OF_SPARK, OF_DUCKDB = every_query("spark"), every_query("duckdb")
QUERIES = [*OF_SPARK, *OF_DUCKDB]
#: Those of the short run: what is refused, and one in six of the others.
SHORT = {
    asked.name
    for place, asked in enumerate(QUERIES)
    if place % 6 == 0 or asked.name[:3] in REFUSED | REFUSED_ON_STREAMS
}
#: Rows of a batch.
BATCH = 41


def params(queries: Iterable[Asked]) -> list:
    return [
        pytest.param(one, id=one.name, marks=[] if one.name in SHORT else [pytest.mark.slow])
        for one in queries
    ]


def test_enough_run():
    assert len(QUERIES) - len(REFUSED) >= 110
    of_streams = [asked for asked in QUERIES if asked.is_of_streams]
    assert sum(asked.name[:3] not in REFUSED_ON_STREAMS for asked in of_streams) >= 70


@pytest.mark.parametrize("asked", params(QUERIES))
def test_on_tables(asked, asked_tables, answers):
    given = {name: asked_tables[name] for name in asked.tables}
    number = asked.name[:3]
    if number in REFUSED:
        with pytest.raises(QueryError, match=REFUSED[number]):
            penstock.sql(asked.text, given, time=asked.time)
        return
    found = penstock.sql(asked.text, given, time=asked.time)
    assert found.column_names == answers(asked).column_names
    assert counted(found) == counted(answers(asked))
    assert found.num_rows


@pytest.mark.parametrize("asked", params(one for one in QUERIES if one.is_of_streams))
def test_on_streams(asked, asked_tables, answers):
    given = {name: asked_tables[name] for name in asked.tables}
    schemas = {name: table.schema for name, table in given.items()}
    number = asked.name[:3]
    if number in REFUSED_ON_STREAMS:
        with pytest.raises(QueryError, match=REFUSED_ON_STREAMS[number]):
            penstock.stream(asked.text, schemas, time=asked.time)
        return
    stream = penstock.stream(asked.text, schemas, time=asked.time, unique=UNIQUE.get(number))
    times = set((asked.time or {"": "t"}).values())
    with stream:
        rows = Counter()
        batches = []
        for name, table in given.items():
            (column,) = sorted(times & set(table.column_names)) or ["t"]
            ordered = table.sort_by(column)
            sources = [name]
            if isinstance(stream, JoinStream | GroupStream):
                sources = [side.alias for side in stream.query.sides if side.table == name]
            cut = range(0, len(ordered), BATCH)
            batches += [(k, source, ordered.slice(k, BATCH)) for source in sources for k in cut]
        for _, source, batch in sorted(batches, key=lambda one: one[:2]):
            stream.push(source, batch)
            rows += counted(stream.poll())
        rows += counted(stream.close())
        assert sum(len(late) for late in stream.late().values()) == 0
    assert rows == counted(answers(asked))
