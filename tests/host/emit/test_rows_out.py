"""Output columns of any type, from any device threads, against Arrow's take of NumPy's pairs."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.host.devices.cpu import CpuDevice
from penstock.host.emit import output
from penstock.host.emit.delivery import InOrder, PairDelivery
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow
from penstock.host.join.table import table_join
from penstock.host.join.table.table_join import TableJoin
from penstock.host.prune.sizes import DEFAULT_PRUNING
from penstock.host.rows import gather
from penstock.query import compile_query
from penstock.query.options import QueryOptions
from tests.host.kit.pruning import TINY

#: Times lie this far apart at most; coordinates, too.
WITHIN, NEAR = 40, 60
TYPES = (
    pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(),
    pa.bool_(), pa.string(), pa.large_string(), pa.binary(), pa.binary(3), pa.decimal128(9, 2),
    pa.date32(), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.time64("us"), pa.duration("ms"),
    pa.list_(pa.int16()), pa.struct([("a", pa.int32()), ("b", pa.string())]),
    pa.dictionary(pa.int16(), pa.string()),
)  # fmt: skip


def column(rng: np.random.Generator, dtype: pa.DataType, rows: int, nulls: float) -> pa.Array:
    """Random values of a type."""
    whole = rng.integers(0, 100, rows).tolist()
    if pa.types.is_dictionary(dtype):
        return column(rng, dtype.value_type, rows, nulls).dictionary_encode().cast(dtype)
    if pa.types.is_boolean(dtype):
        values = [n % 2 == 0 for n in whole]
    elif pa.types.is_decimal(dtype):
        values = [Decimal(n) / 4 for n in whole]
    elif pa.types.is_fixed_size_binary(dtype):
        values = [f"{n:03}".encode() for n in whole]
    elif pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        values = ["é" * (n % 5) + str(n) for n in whole]
    elif pa.types.is_binary(dtype):
        values = [b"x" * n for n in whole]
    elif pa.types.is_list(dtype):
        values = [[n] * (n % 3) for n in whole]
    elif pa.types.is_struct(dtype):
        values = [{"a": n, "b": str(n)} for n in whole]
    elif pa.types.is_floating(dtype):
        values = [n / 8 for n in whole]
    else:
        values = whole
    is_null = rng.random(rows) < nulls
    return pa.array([None if no else v for v, no in zip(values, is_null, strict=True)], dtype)


def side(rng: np.random.Generator, rows: int, *, is_sorted: bool) -> pa.Table:
    """A table with a time, a coordinate and three columns of any type, in one or more chunks."""
    t = rng.integers(0, 1000, rows)
    columns = {
        "id": pa.array(np.arange(rows, dtype=np.int32)),
        "t": pa.array(np.sort(t) if is_sorted else t),
        "x": pa.array(rng.integers(0, 1000, rows).astype(np.int32)),
    }
    for k, n in enumerate(rng.choice(len(TYPES), 3, replace=False)):
        columns[f"c{k}"] = column(rng, TYPES[n], rows, rng.choice([0, 0, 0.2, 1]))
    made = pa.table(columns)
    cut = int(rng.integers(0, rows + 1))
    return pa.concat_tables([made.slice(0, cut), made.slice(cut)]) if rng.random() < 0.5 else made


def pairs(left: pa.Table, right: pa.Table, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all pairs, in the order of arrival of the later row, then of the earlier one."""
    (lt, lx), (rt, rx) = ([one[name].to_numpy() for name in ("t", "x")] for one in (left, right))
    i, j = np.nonzero(
        (abs(lt[:, None] - rt) <= WITHIN) & (abs(lx[:, None] - rx) <= NEAR) & (lx[:, None] < most)
    )
    a, b = (number[rows] for number, rows in zip(arrivals(left, right), (i, j), strict=True))
    order = np.lexsort((np.minimum(a, b), np.maximum(a, b)))
    return i[order], j[order]


def arrivals(left: pa.Table, right: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Arrival numbers: by time, at equal times the left side first."""
    times = np.concatenate([left["t"].to_numpy(), right["t"].to_numpy()])
    number = np.empty(len(times), np.int64)
    number[np.argsort(times, kind="stable")] = np.arange(len(times))
    return number[: left.num_rows], number[left.num_rows :]


def expected(left: pa.Table, right: pa.Table, found: tuple[np.ndarray, np.ndarray]) -> pa.Table:
    columns = {}
    for name, table, rows in zip("lr", (left, right), found, strict=True):
        for own in ("id", "c0", "c1", "c2"):
            taken = table[own].combine_chunks().take(pa.array(rows, pa.int64()))
            is_dictionary = pa.types.is_dictionary(taken.type)
            columns[f"{name}_{own}"] = taken.dictionary_decode() if is_dictionary else taken
    return pa.table(columns)


def query(most: int, kind: str = "") -> str:
    columns = ", ".join(f"{s}.{c} AS {s}_{c}" for s in "lr" for c in ("id", "c0", "c1", "c2"))
    return (
        f"SELECT {columns} FROM (SELECT * FROM l WHERE x < {most}) l {kind} JOIN r "
        f"ON abs(l.x - r.x) <= {NEAR} AND r.t BETWEEN l.t - {WITHIN} AND l.t + {WITHIN}"
    )


def by_ids(table: pa.Table) -> list[dict]:
    rows = table.to_pylist()
    return sorted(rows, key=lambda row: (row["l_id"] is None, row["l_id"], row["r_id"] or -1))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small results are treated as large ones are."""
    monkeypatch.setattr(table_join, "LEAST_PAIRS", 64)
    monkeypatch.setattr(output, "LEAST_VALUES", 16)
    monkeypatch.setattr(gather, "FEW", 8)


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(8))
def test_tables(seed: int, lanes: int) -> None:
    rng = np.random.default_rng(100 * seed + lanes)
    left, right = (
        side(rng, int(rng.choice([1, 30, 300])), is_sorted=bool(rng.random() < 0.5))
        for _ in range(2)
    )
    most = int(rng.choice([0, 500, 2000]))
    ordered = bool(rng.random() < 0.4)
    running = Running(ordered=ordered, task_evaluations=int(rng.choice([100, 5000])))
    given = {"l": left, "r": right}
    schemas = {name: table.schema for name, table in given.items()}
    options = QueryOptions(time={"l": "t", "r": "t"})
    with CpuDevice(threads=lanes) as device:
        join = TableJoin(
            compile_query(query(most), schemas, options), given, device, running=running,
            pruning=[None, DEFAULT_PRUNING, TINY][seed % 3],
        )  # fmt: skip
        delivery = join.delivery()
        pairs_out = delivery.output if isinstance(delivery, InOrder) else delivery
        assert isinstance(pairs_out, PairDelivery)
        pairs_out.output_rows = int(rng.choice([7, 100, 1 << 20]))
        join.delivery = lambda: delivery
        batches = list(join)
    for batch in batches:
        batch.validate(full=True)
    wanted = expected(left, right, pairs(left, right, most))
    found = pa.Table.from_batches(batches, join.schema)
    assert found.schema.types == wanted.schema.types
    if ordered:
        assert found.to_pylist() == wanted.to_pylist()
    else:
        assert by_ids(found) == by_ids(wanted)
        assert all(batch.num_rows <= pairs_out.output_rows for batch in batches)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("seed", range(6))
def test_streams(seed: int, lanes: int) -> None:
    rng = np.random.default_rng(1000 + 10 * seed + lanes)
    left, right = (side(rng, 200, is_sorted=True) for _ in range(2))
    most = int(rng.choice([0, 500, 2000]))
    ordered = bool(seed % 2)
    given = {"l": left, "r": right}
    schemas = {name: table.schema for name, table in given.items()}
    pruning = [False, True, TINY][seed % 3]
    with (
        CpuDevice(threads=lanes) as device,
        penstock.stream(
            query(most), schemas, time={"l": "t", "r": "t"}, device=device,
            flow=Flow(running=Running(ordered=ordered, pruning=pruning)),
        ) as stream,
    ):  # fmt: skip
        found = []
        for low in range(0, 200, 25):
            for name, table in given.items():
                stream.push(name, table.slice(low, 25))
            found.append(stream.poll())
        found.append(stream.close())
    wanted = expected(left, right, pairs(left, right, most))
    for part in found:
        part.validate(full=True)
    assert by_ids(pa.concat_tables(found)) == by_ids(wanted)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_rows_without_a_match(seed: int, lanes: int, *, ordered: bool) -> None:
    rng = np.random.default_rng(2000 + 10 * seed + lanes)
    left, right = (side(rng, 120, is_sorted=bool(seed % 2)) for _ in range(2))
    i, j = pairs(left, right, 500)
    with CpuDevice(threads=lanes) as device:
        found = penstock.sql(
            query(500, "FULL OUTER"), {"l": left, "r": right}, time={"l": "t", "r": "t"},
            device=device, running=Running(ordered=ordered),
        )  # fmt: skip
    matched = by_ids(expected(left, right, (i, j)))
    rows = found.to_pylist()
    if ordered:
        numbers = dict(zip("lr", arrivals(left, right), strict=True))
        keys = [
            sorted(numbers[s][row[f"{s}_id"]] for s in "lr" if row[f"{s}_id"] is not None)[::-1]
            for row in rows
        ]
        assert keys == sorted(keys)
    is_pair = [row["l_id"] is not None and row["r_id"] is not None for row in rows]
    assert by_ids(found.filter(pa.array(is_pair))) == matched
    of_left = np.setdiff1d(np.flatnonzero(left["x"].to_numpy() < 500), i)
    alone = {"l": (left, of_left), "r": (right, np.setdiff1d(np.arange(120), j))}
    for name, (table, chosen) in alone.items():
        none = "r" if name == "l" else "l"
        mine = [row for row in rows if row[f"{none}_id"] is None]
        assert all(row[f"{none}_{c}"] is None for row in mine for c in ("c0", "c1", "c2"))
        kept = table.take(pa.array(chosen)).to_pylist()
        columns = ("id", "c0", "c1", "c2")
        assert [tuple(row[f"{name}_{c}"] for c in columns) for row in mine] == [
            tuple(row[c] for c in columns) for row in sorted(kept, key=lambda row: _place(row))
        ]


def _place(row: dict) -> tuple[int, int]:
    return row["t"], row["id"]
