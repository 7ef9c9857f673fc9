"""A table of a subquery whose alias hides one around it, beside DuckDB."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pyarrow as pa
import pytest

import penstock

ON = (
    "{0}.k = {1}.k",
    "{0}.k <= {1}.k",
    "abs({0}.k - {1}.k) < 2",
    "{0}.k = {1}.k AND {0}.t <= {1}.t",
    "{0}.t < {1}.t",
)
SMALL = {
    "a": pa.table({"id": [0, 1], "k": [1, 2], "t": [5, 50]}),
    "b": pa.table({"id": [10, 11, 12], "k": [1, 1, 2], "t": [3, 4, 9]}),
}


def table(rng: random.Random, first: int) -> pa.Table:
    count = rng.randint(0, 8)
    keys = [rng.choice([0, 1, 2, 3, None]) for _ in range(count)]
    columns = range(first, first + count), keys, rng.sample(range(40), count)
    arrays = [pa.array(list(one), pa.int64()) for one in columns]
    return pa.Table.from_arrays(arrays, ["id", "k", "t"])


def query(rng: random.Random, form: str) -> str:
    """A join, and a subquery of some form whose table mostly has a name of the join's."""
    source = f"a {rng.choice(['', '', 'LEFT '])}JOIN b ON {rng.choice(ON).format('a', 'b')}"
    select, where, end = ["a.id AS i", "b.id AS j"], "", ""
    if rng.random() < 0.4:
        source += f" JOIN {rng.choice('abc')} y ON {rng.choice(ON).format(rng.choice('ab'), 'y')}"
        select.append("y.id AS y")
    item = rng.choice(["a", "b", "c a", "c b", "b a", "a b", "c"])
    name = item[-1]
    outer = rng.choice([one for one in "ab" if one != name])
    on = rng.choice(ON).format(name, outer) if rng.random() < 0.7 else f"{name}.t < 20"
    if rng.random() < 0.3:
        item = f"(SELECT {name}.id, {name}.k, {name}.t FROM {item} WHERE {name}.t > 5) {name}"
    value = f"{name}.k"
    if form in (", LATERAL", "LEFT JOIN LATERAL"):
        limit = f"ORDER BY {name}.t DESC NULLS LAST LIMIT {rng.randint(1, 2)}"
        source += f" {form} (SELECT {name}.id AS z FROM {item} WHERE {on} {limit}) x"
        source += " ON TRUE" if form[0] == "L" else ""
        select.append("x.z")
    elif form == "derived":
        groups = f"SELECT {value} AS k, max({name}.t) AS t FROM {item} GROUP BY {value}"
        source += f" JOIN ({groups}) z ON z.k = {outer}.k"
        select.append("z.t AS z")
    elif form == "value":
        select.append(f"(SELECT max({name}.t) FROM {item} WHERE {value} = {outer}.k) AS z")
    elif form == "groups":
        select = ["a.k AS i", "count(*) AS j", f"(SELECT max({name}.t) FROM {item}) AS z"]
        end = " GROUP BY a.k"
    elif form == "nested":
        inside = f"EXISTS (SELECT 1 FROM c {name} WHERE {value} = {outer}.k)"
        least = f"SELECT min({name}.t) FROM {item} WHERE {value} = {outer}.k AND {inside}"
        where = f" WHERE {outer}.t > ({least})"
    else:
        test = f"{outer}.k IN" if form == "IN" else form
        where = f" WHERE {test} (SELECT {value} FROM {item} WHERE {on})"
    return f"SELECT {', '.join(select)} FROM {source}{where}{end}"


FORMS = [", LATERAL", "LEFT JOIN LATERAL", "derived", "value", "groups", "nested"]
FORMS += ["IN", "EXISTS", "NOT EXISTS"]


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_those_of_duckdb(form: str) -> None:
    rng = random.Random(form)
    for _ in range(6):
        tables = {name: table(rng, first) for name, first in (("a", 0), ("b", 100), ("c", 200))}
        text = query(rng, form)
        with duckdb.connect() as engine:
            for name, one in tables.items():
                engine.register(name, one)
            expected = engine.sql(text).fetchall()
        found = zip(*penstock.sql(text, tables).to_pydict().values(), strict=True)
        assert Counter(found) == Counter(expected), text


def test_errors_say_the_aliases_of_the_query() -> None:
    text = "SELECT 1 FROM a b JOIN b c ON length(b.k, c.k) < 3"
    with pytest.raises(penstock.PenstockError, match=r"column 97: c\.k\)$"):
        penstock.sql(f"SELECT a.id FROM a JOIN b ON a.k <= b.k WHERE EXISTS ({text})", SMALL)
