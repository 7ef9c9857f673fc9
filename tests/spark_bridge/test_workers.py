"""Workers of streams in Spark's tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import DataError, ProcessError, UsageError
from penstock.host.workers import Workers
from penstock.spark_bridge import run_workers
from tests.host.workers.kit.cases import CASES
from tests.host.workers.kit.groups import comparable
from tests.spark_bridge.kit.apps import ended_of, run_app
from tests.spark_bridge.kit.workers_app import SEED, once, right

#: Feeds of each source, which the workers share.
FEEDS = 3


def share(name: str, count: int, checkpoint: str | None = None) -> Any:
    """Return a function that pushes each worker's feeds, and returns its rows."""

    def main(workers: Workers) -> list[tuple[int, int, pa.Table]]:
        case = CASES[name]
        found = []

        def keep(polled: Any) -> None:
            if checkpoint is None:
                found.append((0, workers.rank, polled))
            elif polled is not None:
                found.append(tuple(polled))

        with case.opened(workers, checkpoint=checkpoint) as stream:
            given, own = case.sources(3, count), range(workers.rank, FEEDS, workers.size)
            for source in given:
                for feed in own:
                    stream.register(source, f"f{feed}")
            for place in range(count):
                for source in given:
                    if place % FEEDS in own:
                        stream.push(source, given[source][place], feed=f"f{place % FEEDS}")
            keep(stream.close())
            while checkpoint is not None and (polled := stream.poll()) is not None:
                keep(polled)
        return found

    return main


def rows_of(found: list[list[tuple[int, int, pa.Table]]]) -> list[Any]:
    tables = {(number, rank): rows for own in found for number, rank, rows in own}
    return comparable(pa.concat_tables(tables.values()))


@pytest.mark.parametrize("name", ["groups", "theta"])
def test_streams_give_what_duckdb_does(name: str, spark) -> None:
    case = CASES[name]
    found = run_workers(spark, share(name, 12), workers=2)
    assert len(found) == 2
    assert case.shown(rows_of(found)) == case.shown(case.rows(case.sources(3, 12)))
    assert all(part.num_rows for own in found for *_, part in own)


def test_more_workers_than_slots_are_refused_at_once(spark) -> None:
    with pytest.raises(UsageError, match="3 workers need as many slots at the same time, and Spa"):
        run_workers(spark, share("groups", 1), workers=3)
    with pytest.raises(UsageError, match="workers must be 1 to 4096, not 0"):
        run_workers(spark, share("groups", 1), workers=0)
    with pytest.raises(UsageError, match="main must be a function of"):
        run_workers(spark, 3, workers=1)  # type: ignore[arg-type]


def test_the_first_error_is_shown_with_its_rank_and_all_end(spark) -> None:
    def main(workers: Workers) -> None:
        with CASES["groups"].opened(workers) as stream:
            stream.register("a", f"f{workers.rank}")
            if workers.rank == 1:
                raise DataError("this file is cut")
            stream.push("a", CASES["groups"].sources(1, 1)["a"][0], feed="f0")

    with pytest.raises(DataError, match="worker 1 has failed: this file is cut"):
        run_workers(spark, main, workers=2)


def test_an_error_before_the_stream_is_opened_ends_those_that_open_it(spark) -> None:
    def main(workers: Workers) -> None:
        if workers.rank == 0:
            raise ValueError("no such topic")
        CASES["groups"].opened(workers).close()

    with pytest.raises(ProcessError, match=r"worker 0 has failed: ValueError: no such topic \(at"):
        run_workers(spark, main, workers=2)


def test_a_killed_worker_costs_no_row(tmp_path: Path, spark) -> None:
    assert len(run_workers(spark, once(tmp_path, SEED, "groups", "merge:1:20"), workers=2)) == 2
    assert (tmp_path / "killed").exists()
    assert right(tmp_path, "groups")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("master", "case", "killed"),
    [
        ("local-cluster[2,1,1024]", "theta", "executor"),
        ("local-cluster[2,1,1024]", "keyed", "seal:1:9"),
        ("connect", "groups", "nothing"),
        ("connect", "theta", "push:1:9"),
    ],
)
def test_in_executors_and_through_a_server(
    master: str, case: str, killed: str, tmp_path: Path
) -> None:
    pytest.importorskip("grpc", reason="needs pip install 'penstock[dev]'")
    said = run_app("workers_app", master, str(tmp_path), str(SEED), case, killed, timeout_s=300)
    assert "PIDS" in said.stdout, ended_of(said)
    assert (tmp_path / "killed").exists() == (killed != "nothing")
    assert right(tmp_path, case)
