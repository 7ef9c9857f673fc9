"""Whatever is passed to the calls of ``import penstock``, what is wrong is a PenstockError."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import (
    OutOfMemoryError,
    PenstockError,
    SchemaError,
    UsageError,
    memory_explained,
)

TABLE = pa.table({"id": [1, 2], "t": [10, 50], "x": [0, 9]})
TIME = {"a": "t", "b": "t"}
QUERY = "SELECT a.id FROM a JOIN b ON b.t BETWEEN a.t - 5 AND a.t + 5"
TWICE = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["id", "t", "t"])


class Hollow:
    """Says that it gives Arrow data, and does not."""

    def __arrow_c_stream__(self, schema: object = None) -> object:
        raise RuntimeError("nothing here")

    def __repr__(self) -> str:
        return "Hollow()"


#: What no argument is, or few are.
SILLY = [
    None, 0, -1, 3.5, float("nan"), float("inf"), "", "x", "\0", "\ud800", b"x", [], [1], {}, True,
    {"a": None}, {None: 1}, {"a": -1}, {"z": 1}, {"a": "t", "b": []}, Hollow(), 10**30, -(10**30),
    10**5000, datetime.timedelta(-1), datetime.timedelta.max, datetime.datetime.min,
    Decimal("NaN"), Decimal("1e999999999"), TABLE, len,
]  # fmt: skip


def sql(query: Any = QUERY, tables: Any = None, **options: Any) -> pa.Table:
    tables = {"a": TABLE, "b": TABLE} if tables is None else tables
    return penstock.sql(query, tables, **{"time": TIME, **options})


def stream(query: Any = QUERY, schemas: Any = None, **options: Any) -> penstock.RunningQuery:
    schemas = {"a": TABLE.schema, "b": TABLE.schema} if schemas is None else schemas
    return penstock.stream(query, schemas, **{"time": TIME, **options})


def opened(**options: Any) -> None:
    stream(**options).close()


def flowing(**options: Any) -> None:
    opened(flow=penstock.Flow(**options))


def running(**options: Any) -> None:
    flowing(running=penstock.Running(**options))


CALLS: dict[str, Callable[[Any], Any]] = {
    "sql query": lambda v: sql(v),
    "sql tables": lambda v: penstock.sql(QUERY, v, time=TIME),
    "sql table": lambda v: sql(tables={"a": v, "b": TABLE}),
    "sql value": lambda v: sql(f"{QUERY} AND a.x < p", params={"p": v}),
    "stream query": lambda v: stream(v).close(),
    "stream schemas": lambda v: penstock.stream(QUERY, v, time=TIME).close(),
    "stream schema": lambda v: stream(schemas={"a": v, "b": TABLE.schema}).close(),
}
for _name in ("time", "rows", "within", "params", "scale", "disorder", "device", "operator"):
    CALLS[f"sql {_name}"] = lambda v, name=_name: sql(**{name: v})
CALLS["sql pruning"] = lambda v: sql(pruning=v)
for _name in ("time", "rows", "within", "params", "scale", "disorder", "device", "unique", "flow"):
    CALLS[f"stream {_name}"] = lambda v, name=_name: opened(**{name: v})
CALLS["stream trace"] = lambda v: opened(trace=v)
for _name in ("latency_s", "memory_bytes", "idle_s", "push_timeout_s", "running"):
    CALLS[f"flow {_name}"] = lambda v, name=_name: flowing(**{name: v})
for _name in ("ordered", "policy", "task_evaluations", "timeout_s", "depth", "most_failures"):
    CALLS[f"running {_name}"] = lambda v, name=_name: running(**{name: v})
for _name in ("least_pairs", "free_rows", "run_rows", "always", "bands"):
    CALLS[f"pruning {_name}"] = lambda v, name=_name: penstock.Pruning(**{name: v})


def check_message(call: Callable[[], Any]) -> None:
    """It works, or says in a sentence why not."""
    said = "it worked"
    try:
        call()
    except PenstockError as error:
        said = str(error)
    assert said.strip()
    assert len(said) < 1000, said


@pytest.mark.parametrize("call", CALLS)
def test_calls(call: str) -> None:
    for value in SILLY:
        check_message(lambda value=value: CALLS[call](value))


METHODS: dict[str, Callable[[penstock.RunningQuery, Any], Any]] = {
    "push": lambda s, v: s.push("a", v),
    "push source": lambda s, v: s.push(v, TABLE),
    "push feed": lambda s, v: s.push("a", TABLE, feed=v),
    "pushed": lambda s, v: s.pushed(v),
    "pushed feed": lambda s, v: s.pushed("a", v),
    "advance": lambda s, v: s.advance("b", v),
    "advance source": lambda s, v: s.advance(v, 5),
    "advance feed": lambda s, v: s.advance("a", 5, feed=v),
    "register": lambda s, v: s.register("b", v),
    "register source": lambda s, v: s.register(v, "f"),
    "register disorder": lambda s, v: s.register("b", "g", v),
    "deregister": lambda s, v: s.deregister("a", v),
    "wait": lambda s, v: s.wait(v, 0),
    "wait_for": lambda s, v: s.wait(0, v),
    "serve_metrics": lambda s, v: s.serve_metrics(v).close(),
}


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_a_stream(method: str) -> None:
    with stream() as opened:
        for value in SILLY:
            check_message(lambda value=value: METHODS[method](opened, value))
        opened.flush()  # it still works


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: stream().push("a", None), UsageError, "RecordBatch or Table, or .* not NoneType"),
        (lambda: sql(rows=99999999999999999999), UsageError, "rows must be .* to 92233720"),
        (lambda: sql(rows=True), UsageError, "rows must be a whole number, not True"),
        (lambda: sql(None), UsageError, "query must be text, not None"),
        (lambda: sql(tables={"a": TWICE, "b": TABLE}), SchemaError, "one column named t; rename"),
        (lambda: stream(schemas={"a": TWICE.schema, "b": TABLE.schema}), SchemaError, "named t"),
        (lambda: sql(tables={"a": Hollow(), "b": TABLE}), UsageError, "no Arrow data: nothing"),
        (lambda: penstock.Flow(latency_s=1e300), UsageError, "at most 1,000,000,000 seconds"),
    ],
)
def test_messages(call: Callable[[], Any], kind: type[PenstockError], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


# -- files ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tables")
    (made / "folder.csv").mkdir()
    (made / "empty folder").mkdir()
    for suffix in ("csv", "parquet", "arrow"):
        (made / f"junk.{suffix}").write_bytes(bytes(range(256)) * 20)
        (made / f"empty.{suffix}").write_bytes(b"")
    (made / "lines.csv").write_text("\n\n")
    (made / "ragged.csv").write_text("id,t,x\n1,2\n")
    (made / "twice.csv").write_text("id,t,t\n1,2,3\n")
    with pa.ipc.new_file(str(made / "twice.arrow"), TWICE.schema) as writer:
        writer.write_table(TWICE)
    pq.write_table(TWICE, made / "twice.parquet")
    pq.write_table(TABLE, made / "cut.parquet")
    whole = (made / "cut.parquet").read_bytes()
    (made / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    return made


SUFFIXES = ("csv", "parquet", "arrow")


@pytest.mark.parametrize(
    "name",
    [
        *("folder.csv", "empty folder", "none.csv", "noformat", "lines.csv", "ragged.csv"),
        *(f"{what}.{suffix}" for what in ("junk", "empty", "twice") for suffix in SUFFIXES),
        "cut.parquet",
    ],
)
def test_files_that_are_no_tables(folder: Path, name: str) -> None:
    with pytest.raises(PenstockError, match=rf"{name}|named t|no column|unknown column"):
        sql(tables={"a": folder / name, "b": TABLE})


@pytest.mark.parametrize("kind", ["", "LEFT ", "FULL "])
@pytest.mark.parametrize("unit", [None, "us"])
def test_csv_of_a_header_alone_is_an_empty_table(tmp_path: Path, kind: str, unit: str) -> None:
    (tmp_path / "head.csv").write_text("id,t,x\n")
    table = TABLE
    reach = "5"
    if unit is not None:
        table = table.set_column(1, "t", table["t"].cast(pa.timestamp(unit)))
        reach = "INTERVAL 5 SECONDS"
    query = (
        f"SELECT a.id AS i, b.id AS j FROM a {kind}JOIN b ON abs(a.x - b.x) < 3 "
        f"AND b.t BETWEEN a.t - {reach} AND a.t + {reach}"
    )
    rows = {"": [], "LEFT ": [1, 2], "FULL ": [1, 2]}[kind]
    head = tmp_path / "head.csv"
    assert sql(query, {"a": table, "b": head})["i"].to_pylist() == rows
    rows = {"": [], "LEFT ": [], "FULL ": [1, 2]}[kind]
    assert sql(query, {"a": head, "b": table})["j"].to_pylist() == rows
    if unit is None:
        assert sql(query, {"a": head, "b": head}).num_rows == 0


# -- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [MemoryError(), pa.ArrowMemoryError("malloc of size 64"), RuntimeError("other")]
)
def test_lacking_memory_says_what_to_do(error: Exception) -> None:
    wanted = RuntimeError if isinstance(error, RuntimeError) else OutOfMemoryError
    with (
        pytest.raises(wanted, match=r"other|not enough memory.*shorten the window"),
        memory_explained(),
    ):
        raise error


def test_a_limit_of_the_system_is_no_bare_message() -> None:
    """The process lets itself have little more than it has, and joins far more than that."""
    text = (
        "import resource, numpy as np, pyarrow as pa, penstock\n"
        "from penstock.errors import OutOfMemoryError\n"
        "t = pa.table({'t': np.zeros(60_000, int), 'x': np.arange(60_000)})\n"
        "q = 'SELECT a.x AS p, b.x AS q FROM a JOIN b ON a.t = b.t'\n"
        "n = pa.table({'t': [1], 'x': [1]})\n"
        "penstock.sql(q, {'a': n, 'b': n}, time={'a': 't', 'b': 't'})\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (250 << 20),) * 2)\n"
        "try:\n"
        "    penstock.sql(q, {'a': t, 'b': t}, time={'a': 't', 'b': 't'})\n"
        "except OutOfMemoryError as error:\n"
        "    print('explained', error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.startswith("explained there is not enough memory"), done.stderr[-2000:]
