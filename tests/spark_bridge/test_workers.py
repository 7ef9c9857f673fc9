"""Workers of streams in Spark's tasks."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import DataError, ProcessError, UsageError
from penstock.host.workers import Workers
from penstock.spark_bridge import placing, run_workers
from penstock.spark_bridge.placing import slots_for
from tests.host.workers.kit.cases import CASES
from tests.host.workers.kit.groups import comparable
from tests.spark_bridge.kit.apps import SERVER_ENV, ended_of, run_app
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


@pytest.mark.parametrize("name", ["groups", pytest.param("theta", marks=pytest.mark.slow)])
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

    with pytest.raises(
        ProcessError, match=r"worker 0 has failed: ValueError: no such topic \(at"
    ) as caught:
        run_workers(spark, main, workers=2)
    note = next(own for own in caught.value.__notes__ if own.startswith("On worker"))
    assert note.startswith("On worker 0:\nTraceback")
    assert "in main\n    raise ValueError" in note


def test_a_main_that_exits_has_failed(spark) -> None:
    def main(workers: Workers) -> None:
        if workers.rank == 1:
            raise SystemExit("no more topics")

    with pytest.raises(ProcessError, match="worker 1 has failed: SystemExit: no more topics"):
        run_workers(spark, main, workers=2)


@pytest.mark.slow
def test_an_interrupt_ends_the_workers(tmp_path: Path, spark) -> None:
    def main(workers: Workers) -> None:
        (tmp_path / f"{workers.rank}").touch()
        threading.Event().wait(120)

    def interrupt() -> None:
        until = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
            is_over.wait(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    is_over = threading.Event()
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_workers(spark, main, workers=2)
    finally:
        is_over.set()
        thread.join()
    assert run_workers(spark, lambda workers: workers.rank, workers=2) == [0, 1]  # slots are free


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_server_whose_master_tells_no_slots_is_asked() -> None:
    pytest.importorskip("grpc", reason="needs pip install 'penstock[dev]'")
    said = run_app("slots_app", timeout_s=300, env=SERVER_ENV)
    cores = len(os.sched_getaffinity(0))
    assert f"SLOTS {cores} {cores + 1} workers need" in said.stdout, ended_of(said)


def test_executors_that_are_still_to_come_are_waited_for(spark, monkeypatch) -> None:
    """A cluster's session begins before its executors do."""
    context = spark.sparkContext
    began = context.startTime / 1000
    asked: list[float] = []

    def now() -> float:
        return began + len(asked)

    monkeypatch.setattr(context, "master", "spark://host:7077")
    monkeypatch.setattr(placing, "time", SimpleNamespace(time=now, sleep=asked.append))
    assert slots_for(spark, 2) == 2
    assert not asked
    assert slots_for(spark, 3) == 2
    assert len(asked) == placing.REGISTERED_S
    monkeypatch.setattr(context, "master", "local[2]")
    asked.clear()
    assert slots_for(spark, 3) == 2
    assert not asked
