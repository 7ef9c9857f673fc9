"""Which state of a table a row of the stream meets: snapshots, and kept rows of a known age."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import UsageError
from penstock.host.relation import open_folder
from penstock.host.relation.postgres.ages import ReadLog

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])
QUERY = "SELECT o.id, c.id AS cid, c.v, c.w FROM o LEFT JOIN c ON o.k = c.id"


@pytest.fixture
def customers(postgres) -> str:
    postgres.run(
        "DROP TABLE IF EXISTS aged CASCADE",
        "CREATE TABLE aged (id bigint, v int, w int)",
        "CREATE INDEX ON aged (id)",
        # Several rows of a key, all of one v.
        "INSERT INTO aged SELECT g % 500, 0, g FROM generate_series(0, 999) g",
    )
    return postgres.address("aged", "id")


def orders(keys: list[int], start: int = 0) -> pa.Table:
    return pa.table({"id": list(range(start, start + len(keys))), "k": keys}, SCHEMA)


def answers(stream, keys: list[int]) -> list[int | None]:
    """The v of each key; all rows of a key have the same one."""
    stream.push("o", orders(keys))
    found = stream.poll().to_pylist()
    values: list[int | None] = []
    for number in range(len(keys)):
        own = {row["v"] for row in found if row["id"] == number}
        assert len(own) == 1, "a row has met two states"
        values += own
    return values


def opened(location: str, **options: object):
    given = "".join(f"&{name}={value}" for name, value in options.items())
    return penstock.stream(QUERY, {"o": SCHEMA, "c": penstock.relation(location + given)})


def test_without_an_age_each_batch_meets_the_newest_state(postgres, customers):
    with opened(customers, max_age=0) as stream:
        for v in range(1, 8):
            assert set(answers(stream, list(range(500)))) == {v - 1}
            postgres.run(f"UPDATE aged SET v = {v}")


def test_kept_rows_are_no_older_than_their_age(postgres, customers):
    age_s = 0.5
    changed: list[float] = [time.monotonic()]  # when v was there for all to see
    kept = 0
    with opened(customers, max_age="500ms") as stream:
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            began = time.monotonic()
            least = max(v for v, at in enumerate(changed) if at <= max(began - age_s, changed[0]))
            for value in answers(stream, [*range(0, 500, 3), 1_000]):
                assert value is None or value >= least
                kept += value is not None and value < len(changed) - 1
            if len(changed) < 12:
                postgres.run(f"UPDATE aged SET v = {len(changed)}")
                changed.append(time.monotonic())
        assert stream.report().lookup.hits
    assert kept, "no row was kept, so nothing was tested"


def test_that_there_is_no_row_ages_too(postgres, customers):
    with opened(customers, max_age="300ms") as stream:
        assert answers(stream, [700]) == [None]
        postgres.run("INSERT INTO aged VALUES (700, 5, 5)")
        end = time.monotonic() + 20
        while answers(stream, [700]) == [None]:
            assert time.monotonic() < end
        postgres.run("DELETE FROM aged WHERE id = 700")
        while answers(stream, [700]) == [5]:
            assert time.monotonic() < end


def test_kept_rows_save_questions(postgres, customers):
    with opened(customers, max_age="1h") as stream:
        answers(stream, list(range(500)))
        postgres.run("UPDATE aged SET v = 9")
        assert set(answers(stream, list(range(500)))) == {0}
        assert stream.report().lookup.hits == 500


@pytest.mark.parametrize("latency_s", [0.0, 0.05])
def test_no_row_meets_two_states_while_the_table_changes(postgres, customers, latency_s):
    chance = np.random.default_rng(3)
    flow = penstock.Flow(latency_s=latency_s)
    relation = penstock.relation(f"{customers}&max_age=20ms")
    given: Counter = Counter()
    with penstock.stream(QUERY, {"o": SCHEMA, "c": relation}, flow=flow) as stream:
        for n in range(30):
            stream.push("o", orders(chance.integers(0, 500, 200).tolist(), 200 * n))
            if n % 3 == 0:
                postgres.run(f"UPDATE aged SET v = {n}")
        found = stream.close().to_pylist()
    states: dict[int, set[int]] = {}
    for row in found:
        given[row["id"]] += 1
        states.setdefault(row["id"], set()).add(row["v"])
    assert given == Counter(dict.fromkeys(range(6000), 2))  # two rows per key
    assert all(len(seen) == 1 for seen in states.values())


def test_no_transaction_stays_open(postgres, customers):
    with opened(customers, max_age=0) as stream:
        answers(stream, [1, 2, 3])
        end = time.monotonic() + 20
        state = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock' "
            "AND state LIKE 'idle in transaction%'"
        )
        while postgres.rows(state) != [(0,)]:
            assert time.monotonic() < end


def test_a_table_that_is_emptied_is_never_seen_half(postgres, customers):
    """TRUNCATE is no change of rows: without a lock, an old snapshot would see none."""
    with opened(customers, max_age=0) as stream:
        assert set(answers(stream, [1, 2])) == {0}
        postgres.run("TRUNCATE aged")
        assert answers(stream, [1, 2]) == [None, None]


def test_views_partitions_and_scans(postgres, customers):
    postgres.run(
        "CREATE VIEW half AS SELECT * FROM aged WHERE id < 250",
        "CREATE TABLE parts (id bigint, v int, w int) PARTITION BY RANGE (id)",
        "CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (250)",
        "CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (250) TO (600)",
        "INSERT INTO parts SELECT * FROM aged",
        "CREATE MATERIALIZED VIEW stored AS SELECT * FROM aged",
    )
    stream = orders(list(range(240, 260)))
    for table, least in (("half", 250), ("parts", 500), ("stored", 500), ("aged", 500)):
        relation = penstock.relation(postgres.address(table, "id"))
        for on in ("o.k = c.id", "abs(o.k - c.id) < 1"):
            query = f"SELECT o.id, c.w FROM o JOIN c ON {on}"
            found = penstock.sql(query, {"o": stream, "c": relation})
            expected = [(n, w) for n in range(20) for w in (240 + n, 740 + n) if 240 + n < least]
            got = Counter(zip(*found.to_pydict().values(), strict=True))
            assert got == Counter(expected), (table, on)


def test_what_only_folders_can_do(customers):
    with pytest.raises(UsageError, match=r"is not updated here: it is a table in PostgreSQL"):
        open_folder(customers, "is not updated here")


# -- the log --------------------------------------------------------------------------------------


def hashes(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def test_the_log_gives_what_is_too_old_once():
    log = ReadLog(8.0, 100)
    log.note(hashes(3, 1), 0.0)
    log.note(hashes(2), 0.5)  # of the same step
    log.note(hashes(1, 4), 1.5)
    assert not log.is_due(7.9)
    assert log.is_due(8.0)
    assert log.take(8.0).tolist() == [1, 2, 3]
    assert log.take(9.4).tolist() == []
    assert log.take(9.5).tolist() == [1, 4]
    assert not log.is_due(1e9)


def test_a_log_that_is_full_gives_the_oldest_early():
    log = ReadLog(1e6, 16)
    for n in range(40):
        log.note(hashes(n), 0.0)
    gone = log.take(0.0).tolist()
    assert gone == list(range(len(gone)))
    assert len(gone) >= 24
    assert not log.is_due(0.0)
