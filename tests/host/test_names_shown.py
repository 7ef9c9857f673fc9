"""Messages name a source as the query does, and as its rows are pushed."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock
from penstock.errors import DataError, UsageError

ROWS = pa.table({"id": [1, 2], "t": [20, 10]})
QUERY = "SELECT o.id FROM orders o JOIN gps ON o.id < gps.id AND gps.t BETWEEN o.t - 9 AND o.t + 9"
TABLES = {"orders": ROWS, "gps": ROWS}
TIME = {"o": "t", "gps": "t"}


def test_both_names_where_they_differ():
    with pytest.raises(DataError, match=r"^o \(orders\) has 1 row further out of order than"):
        penstock.sql(QUERY, TABLES, time=TIME, disorder={"o": 5})
    schemas = dict.fromkeys(TABLES, ROWS.schema)
    with pytest.raises(UsageError, match=r"given for x, but the query joins o \(orders\) and gps$"):
        penstock.stream(QUERY, schemas, time=TIME, disorder={"x": 5})
    with penstock.stream(QUERY, schemas, time=TIME) as stream:
        with pytest.raises(UsageError, match=r"the query joins o \(orders\) and gps$"):
            stream.push("nope", ROWS)
        for name in ("orders", "ORDERS", "o"):
            stream.push(name, ROWS)
        stream.flush()
        assert stream.late()["o"].num_rows == stream.report().late["o"] == 3
        stream.close()
