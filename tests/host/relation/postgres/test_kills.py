"""A server that is killed again and again while rows are looked up and its table changes."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from random import Random

import pyarrow as pa
import pytest

import penstock
from tests.kit.postgres_server import PostgresServer, served_postgres

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])
LEFT = "SELECT o.id, o.k, c.v, c.w FROM o LEFT JOIN c ON o.k = c.id"
KEYS, BATCH = 1_000, 400


class Kills:
    """Kills the server at random, and changes all rows of its table at once meanwhile."""

    def __init__(self, server: PostgresServer, kills: int) -> None:
        self._server, self._left, self._random = server, kills, Random(kills)
        self.done, self.changes = 0, 0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._kill, self._change)]

    def __enter__(self) -> Kills:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(120)

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def _kill(self) -> None:
        while self.done < self._left and not self._over.wait(self._random.uniform(0.05, 0.5)):
            self._server.kill()
            self._server.start()
            self.done += 1
        self._over.set()

    def _change(self) -> None:
        while not self._over.wait(0.01):
            with suppress(Exception):  # it is down
                self._server.run("UPDATE c SET v = v + 1, w = 7 * (v + 1) + id")
                self.changes += 1


def _batch(number: int) -> pa.Table:
    random = Random(number)
    ids = range(number * BATCH, (number + 1) * BATCH)
    keys = [random.randrange(KEYS * 5 // 4) for _ in ids]
    return pa.table({"id": list(ids), "k": keys}, SCHEMA)


@pytest.mark.parametrize("kills", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_no_row_is_lost_or_doubled_and_each_is_of_one_state(kills):
    with served_postgres() as server:
        server.run(
            "CREATE TABLE c (id bigint PRIMARY KEY, v bigint, w bigint)",
            f"INSERT INTO c SELECT g, 0, g FROM generate_series(0, {KEYS - 1}) g",
        )
        table = penstock.relation(server.address("c", "id", max_age="0", retry="60s"))
        found, number, last = [], 0, 0
        with penstock.stream(LEFT, {"o": SCHEMA, "c": table}) as stream, Kills(server, kills) as by:
            while not by.is_over:
                before = by.done
                stream.push("o", _batch(number))
                number += 1
                rows = stream.poll()
                states = set(rows["v"].drop_null().to_pylist())
                # Another snapshot is taken only where one was lost.
                assert len(states) <= 2 + by.done - before
                assert not states or min(states) >= last
                last = max(states, default=last)
                found.append(rows)
        assert by.done == kills
        assert by.changes > 0
        assert last > 0
        rows = pa.concat_tables(found).to_pylist()
        assert Counter(row["id"] for row in rows) == Counter(range(number * BATCH))
        for row in rows:
            is_there = row["k"] < KEYS
            assert is_there == (row["v"] is not None)
            expected = 7 * row["v"] + row["k"] if is_there else None
            assert row["w"] == expected
