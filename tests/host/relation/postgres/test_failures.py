"""A server that dies, hangs, changes or refuses; what users read, and what becomes of the rows."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

import penstock
from penstock.errors import FileError, SchemaError, ServerError, UsageError
from tests.kit.postgres_server import PostgresServer, served_postgres

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])
LEFT = "SELECT o.id, c.name, c.v FROM o LEFT JOIN c ON o.k = c.id"
SCAN = "SELECT o.id, c.id AS cid FROM o JOIN c ON c.id BETWEEN o.k AND o.k + 1"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of these tests alone, since they kill it."""
    with served_postgres() as one:
        yield one


@pytest.fixture
def customers(server) -> str:
    server.run(
        "DROP TABLE IF EXISTS customers CASCADE",
        "CREATE TABLE customers (id bigint PRIMARY KEY, name text, v int)",
        "INSERT INTO customers SELECT g, 'n' || g, 0 FROM generate_series(0, 999) g",
    )
    return server.address("customers", "id", max_age="0", retry="20s")


def orders(start: int, count: int = 100) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": list(ids), "k": [7 * n % 1000 for n in ids]}, SCHEMA)


def opened(location: str, query: str = LEFT, latency_s: float = 0.0):
    flow = penstock.Flow(latency_s=latency_s)
    return penstock.stream(query, {"o": SCHEMA, "c": penstock.relation(location)}, flow=flow)


def whole(stream, rows: int) -> None:
    """All pushed rows came out, each once, and joined."""
    found = stream.close()
    assert Counter(found["id"].to_pylist()) == Counter(range(rows))
    for row in found.to_pylist():
        assert row["name"] == f"n{7 * row['id'] % 1000}"


# -- the server dies -----------------------------------------------------------------------------


def test_a_server_that_is_killed_and_started_again(server, customers):
    stream = opened(customers)
    stream.push("o", orders(0))
    server.kill()
    starting = threading.Thread(target=server.start)
    starting.start()  # while the push tries again
    stream.push("o", orders(100))
    starting.join(60)
    whole(stream, 200)


def test_a_server_that_stays_away(server, customers):
    stream = opened(customers.replace("retry=20s", "retry=200ms"))
    stream.push("o", orders(0))
    server.kill()
    try:
        with pytest.raises(ServerError, match=r"127\.0\.0\.1.*cannot be reached") as error:
            stream.push("o", orders(100))
        assert "start the server" in str(error.value)
        assert stream.pushed("o") == 2
        with pytest.raises(ServerError):
            stream.flush()
    finally:
        server.start()
    stream.push("o", orders(200))
    whole(stream, 300)


def test_backends_that_are_killed_at_random(server, customers):
    chance = random.Random(5)
    stream, stop = opened(customers, latency_s=0.01), threading.Event()

    def kill() -> None:
        while not stop.wait(chance.uniform(0.01, 0.1)):
            server.end_backends()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for n in range(30):
            stream.push("o", orders(100 * n))
        stream.flush()
    finally:
        stop.set()
        killer.join(60)
    whole(stream, 3000)


def test_a_scan_that_loses_its_snapshot_begins_anew(server, customers):
    """Rows move in the table meanwhile; a pass over two states would double or lose some."""
    server.run(
        "DROP TABLE IF EXISTS wide",
        "CREATE TABLE wide (id bigint, v text)",
        "INSERT INTO wide SELECT g, repeat('x', 500) FROM generate_series(0, 9999) g",
    )
    location = server.address("wide", "v", max_age="0", retry="20s")
    relation = penstock.relation(location)
    flow = penstock.Flow(memory_bytes=1 << 20)  # a few pages at once
    given = pa.table({"id": list(range(50)), "k": [200 * n for n in range(50)]}, SCHEMA)
    query = "SELECT o.id, c.id AS cid FROM o LEFT JOIN c ON c.id BETWEEN o.k AND o.k + 1"
    reads = []
    with penstock.stream(query, {"o": SCHEMA, "c": relation}, flow=flow) as stream:
        version = stream._join.version
        read = version.read

        def read_and_move(pages, columns, key_hashes=None):
            reads.append(len(pages))
            if len(reads) == 3:
                server.end_backends()
                server.run("UPDATE wide SET v = v WHERE id < 5000")
            return read(pages, columns, key_hashes)

        version.read = read_and_move
        stream.push("o", given)
        found = stream.close()
    assert len(reads) > 4
    expected = Counter((n, 200 * n + d) for n in range(50) for d in (0, 1))
    assert Counter(zip(*found.to_pydict().values(), strict=True)) == expected


# -- the server is slow --------------------------------------------------------------------------


def test_a_slow_table(server, customers):
    server.run(
        "CREATE VIEW slow AS SELECT id, name, v FROM customers WHERE pg_sleep(0.05) IS NOT NULL"
    )
    location = server.address("slow", "id", statement_timeout="300ms", retry="1s")
    stream = opened(location)
    with pytest.raises(ServerError, match=r"longer than statement_timeout=0\.3s.*an index"):
        stream.push("o", orders(0))
    server.run("CREATE OR REPLACE VIEW slow AS SELECT id, name, v FROM customers")
    whole(stream, 100)


def test_a_backend_that_hangs(server, customers):
    location = customers.replace("retry=20s", "retry=20s&statement_timeout=300ms")
    stream = opened(location)
    stream.push("o", orders(0))
    stopped = server.clients()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        stream.push("o", orders(100))  # by another connection
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert stopped
    whole(stream, 200)


# -- the table changes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said", "back"),
    [
        (
            "ALTER TABLE customers RENAME name TO label",
            "name is gone",
            "ALTER TABLE customers RENAME label TO name",
        ),
        (
            "ALTER TABLE customers ALTER v TYPE bigint",
            r"v was int4 \(int32\) and is int8 \(int64\)",
            "ALTER TABLE customers ALTER v TYPE int",
        ),
        (
            "ALTER TABLE customers RENAME TO others",
            "does not exist",
            "ALTER TABLE others RENAME TO customers",
        ),
        (
            "ALTER TABLE customers ALTER id TYPE text",
            r"id was int8 \(int64\) and is text \(string\)",
            "ALTER TABLE customers ALTER id TYPE bigint USING id::bigint",
        ),
    ],
)
def test_a_schema_that_changes(server, customers, change, said, back):
    stream = opened(customers)
    stream.push("o", orders(0))
    server.run(change)
    with pytest.raises(SchemaError, match=rf"has changed since it was opened.*{said}"):
        stream.push("o", orders(100))
    server.run(back)
    whole(stream, 200)


def test_a_column_more_changes_nothing(server, customers):
    stream = opened(customers)
    stream.push("o", orders(0))
    server.run("ALTER TABLE customers ADD more int DEFAULT 3")
    stream.push("o", orders(100))
    whole(stream, 200)


def test_no_rights(server, customers):
    server.run("DROP ROLE IF EXISTS nobody", "CREATE ROLE nobody LOGIN")
    location = server.address("customers", "id", user="nobody")
    with pytest.raises(ServerError, match=r"permission denied for table customers.*GRANT SELECT"):
        penstock.relation(location)
    server.run("GRANT SELECT ON customers TO nobody")
    stream = opened(location + "&max_age=0")
    stream.push("o", orders(0))
    server.run("REVOKE SELECT ON customers FROM nobody")
    with pytest.raises(ServerError, match="GRANT SELECT"):
        stream.push("o", orders(100))
    server.run("GRANT SELECT ON customers TO nobody")
    whole(stream, 200)


# -- addresses -----------------------------------------------------------------------------------


def test_what_is_not_there(server, customers):
    for location, kind, said in [
        (server.address("nosuch", "id"), SchemaError, "no table or view nosuch.*SCHEMA"),
        (server.address("customers", "x"), SchemaError, "no column x for a key; it has id, name"),
        (server.address("customers", "id", database="x"), ServerError, 'database "x" does not'),
        (server.address("customers", "id", user="x"), ServerError, 'role "x" does not'),
        (server.address("", "id"), UsageError, "names no table"),
        (server.address("customers", "id", max_age="x"), UsageError, "max_age of .* a duration"),
        (server.address("customers", "id", statement_timeout=0), UsageError, "every wait needs"),
        (server.address("customers", "id", retry="2d"), UsageError, "a day is the most"),
        ("postgresql://u@127.0.0.1:1/d?table=t&key=id", ServerError, "cannot be reached.*start"),
    ]:
        with pytest.raises(kind, match=said):
            penstock.relation(location)
    with pytest.raises(UsageError, match=r"keeps no state of the start.*relation build"):
        penstock.relation(customers, refresh="start")


def test_the_primary_key_is_the_key(server, customers):
    stream = opened(server.address("customers"))
    stream.push("o", orders(0))
    whole(stream, 100)


@pytest.mark.parametrize("where", ["user", "query"])
def test_no_message_holds_the_password(server, customers, where):
    secret = "s3cr%21t"
    location = customers.replace("postgres@", f"postgres:{secret}@")
    if where == "query":
        location = f"{customers}&password={secret}"
    relation = penstock.relation(location)
    shown = [repr(relation), str(relation)]
    stream = penstock.stream(LEFT, {"o": SCHEMA, "c": relation})
    stream.push("o", orders(0))
    shown += [repr(stream.report()), repr(vars(stream._join.relation))]
    shown.append(stream._join.relation.name)
    stream.close()
    for broken in (
        location.replace(f":{server.port}/", ":1/"),
        location.replace("table=customers", "table=nosuch"),
        location.replace("postgres?", "nosuch?"),
        location.replace("table=", "x="),
        location.replace("max_age=0", "max_age=-"),
    ):
        with pytest.raises((FileError, SchemaError, UsageError)) as error:
            penstock.relation(broken)
        shown.append(str(error.value))
    for text in shown:
        assert "s3cr" not in text
        assert "***" in text or "location" not in text
