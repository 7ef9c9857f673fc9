"""Random groups of one table against DuckDB: tables, streams, and streams on workers."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import penstock
from penstock import Flow, PenstockError, Running
from penstock.host.state import chosen
from tests.kit.effort import effort
from tests.penstock.kit.groups.answers import answer, difference, exact
from tests.penstock.kit.groups.columns import Table, table
from tests.penstock.kit.groups.feeding import Promises, calls, drive, recut, span
from tests.penstock.kit.groups.query import Query, garbled, query

#: Texts that once ended with an error of a library.
MALFORMED = [
    "SELECT count() AS n FROM e",
    "SELECT min_by(v) AS n FROM e",
    "SELECT min_by(v, , ) AS n FROM e",
    "SELECT max_by(v, v, v) AS n FROM e",
    "SELECT count(*) AS n FROM e GROUP BY date_trunc()",
]


def case(seed: int, *, streamed: bool, workers: int | None = None) -> tuple[Random, Table, Query]:
    rng = Random(seed)
    rows = rng.choice([0, 1, 5, 40, 300, 300, 2_000])
    data = table(rng, rows, rng.choice([1, 1, 2, 3]) if streamed else 1)
    asked = query(rng, data, streamed=streamed)
    while workers is not None and not asked.timed:
        asked = query(rng, data, streamed=streamed)
    return rng, data, asked


def check(query_: Query, data: Table, accepted: list[bool], have: pa.Table, seed: int) -> None:
    want, magnitudes = answer(query_, data, accepted)
    wrong = difference(query_, want, magnitudes, have)
    assert not wrong, f"seed {seed}: {wrong}\n{query_.text}\n{data.rows.schema}"


def check_table(seed: int, workers: int | None = None) -> None:
    rng, data, asked = case(seed, streamed=False)
    cut = rng.randrange(data.rows.num_rows + 1)
    rows = pa.concat_tables([data.rows.slice(0, cut), data.rows.slice(cut)])
    have = penstock.sql(asked.text, {"e": rows}, time={"e": "t"}, workers=workers)
    check(asked, data, [True] * rows.num_rows, have, seed)


def check_stream(seed: int, workers: int | None = None) -> None:
    """Run a random stream twice, in other cuts: first in this process, then as asked."""
    rng, data, asked = case(seed, streamed=True, workers=workers)
    made = calls(rng, data, timed=asked.timed)
    promises = Promises(data, made, timed=asked.timed)
    late = [
        u for u, ok in zip(data.rows["u"].to_pylist(), promises.accepted, strict=True) if not ok
    ]
    runs = []
    for cut, size in ((made, None), (recut(rng, made), workers)):
        latency_s = rng.choice([0.0, 0.0, 0.02])
        with penstock.stream(
            asked.text,
            {"e": data.rows.schema},
            time={"e": "t"},
            unique={"e": "u"},
            disorder=span(data, data.disorder[0]) if asked.timed else 0,
            flow=Flow(latency_s=latency_s, running=Running(ordered=True)),
            workers=size,
        ) as stream:
            rows, refused = drive(stream, rng, data, cut, timed=asked.timed)
        assert sorted(refused["u"].to_pylist()) == sorted(late), f"seed {seed}: late rows"
        check(asked, data, promises.accepted, rows, seed)
        runs.append(exact(asked, rows))
    # Groups of unique keys leave with the batch of their row.
    assert runs[0] == runs[1] or not asked.timed, (
        f"seed {seed}: the order of groups follows the cut\n{asked.text}"
    )


@pytest.mark.parametrize("seed", range(effort(12, 6)))
def test_tables(seed: int) -> None:
    check_table(seed)


@pytest.mark.parametrize("seed", range(effort(12, 6)))
def test_streams(seed: int) -> None:
    check_stream(seed)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 5, 3, 8])
def test_streams_on_workers(workers: int) -> None:
    check_stream(100 + workers, workers)


@pytest.mark.parametrize("workers", [2])
def test_tables_on_workers(workers: int) -> None:
    check_table(100 + workers, workers)


@pytest.mark.parametrize("text", MALFORMED)
def test_a_query_that_is_none_is_an_error_of_ours(text: str) -> None:
    with pytest.raises(PenstockError):
        penstock.sql(text, {"e": pa.table({"t": [1], "v": [1]})}, time={"e": "t"})


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 1_500, 50))
def test_many_tables_and_streams(first: int) -> None:
    for seed in range(first, first + 50):
        check_table(seed)
        check_stream(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_500, 1_600, 10))
def test_many_in_compiled_loops(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Loops are compiled from a million rows on, and such tables would take DuckDB too long.
    monkeypatch.setattr(chosen, "COMPILED_FROM_ROWS", 0)
    for seed in range(first, first + 10):
        check_table(seed)
        check_stream(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2_000, 2_024))
def test_many_on_workers(seed: int) -> None:
    workers = (1, 2, 3, 5, 8)[seed % 5]
    check_table(seed, workers)
    check_stream(seed, workers)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 5_000, 500))
def test_many_texts(first: int) -> None:
    """Queries with a few words more, fewer, or others run or are errors of ours."""
    for seed in range(first, first + 500):
        rng, data, asked = case(seed, streamed=seed % 2 == 0)
        text = garbled(rng, asked.text)
        try:
            penstock.sql(text, {"e": data.rows.slice(0, 5)}, time={"e": "t"})
        except PenstockError:
            pass
        except Exception as error:
            raise AssertionError(f"seed {seed}: {text}") from error
