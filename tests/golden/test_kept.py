"""What an earlier revision has stored opens, and goes on as it did there; see README.md."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.host.lookup.nodes.record import read_ring
from penstock.host.relation import open_relation
from penstock.host.relation.folder.reading import file_store
from penstock.host.workers import Workers
from tests.golden.kept import answer_of, batches_of, rows_of, unpacked
from tests.golden.making import version_rows
from tests.golden.streams import STREAMS, goes_on
from tests.host.lookup.nodes.kit import nodes_of
from tests.host.workers.kit.together import all_of, together


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return unpacked(tmp_path)


@pytest.mark.parametrize("name", STREAMS)
def test_ranks_go_on(name: str, kept: Path) -> None:
    stream = STREAMS[name]

    def rank(workers: Workers) -> list[pa.Table]:
        given = {s: batches_of(kept, s) for s in stream.sources[workers.rank :: workers.size]}
        with stream.opened(workers, kept, name) as running:
            return goes_on(running, given)

    found = [table for tables in all_of(together(2, rank)) for table in tables]
    assert rows_of(found) == answer_of(kept, name)


_LOCAL = "full join by key"


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n == _LOCAL else pytest.mark.slow) for n in STREAMS],
)
def test_processes_go_on(name: str, kept: Path) -> None:
    given = {source: batches_of(kept, source) for source in STREAMS[name].sources}
    with STREAMS[name].opened(2, kept, name) as running:
        assert rows_of(goes_on(running, given)) == answer_of(kept, name)


@pytest.mark.parametrize("name", ["by key", "clustered"])
def test_relations_have_all_versions_and_take_more(name: str, kept: Path) -> None:
    relation = open_relation(kept / "relations" / name)
    try:
        numbers = relation.numbers()
        assert numbers == list(range(1, 1 + len(list((kept / "answers").glob(f"* {name} *")))))
        for number in numbers:
            expected = answer_of(kept, f"relation {name} {number}")
            assert rows_of([version_rows(relation, number)]) == expected
        more = pa.table({"k": [1001], "label": ["more"], "weight": [0]}, relation.schema)
        last = relation.append(more)
        assert rows_of([version_rows(relation, last)]) == sorted(
            [*expected, *rows_of([more])], key=repr
        )
        assert list(relation.check()) == []
    finally:
        relation.close()


def test_nodes_of_today_answer_for_a_relation(kept: Path) -> None:
    place = str(kept / "relations" / "by key")
    ring = read_ring(file_store(place))
    assert [(node.name, node.address) for node in ring.nodes] == [("then", "unix:///nowhere/then")]
    asked = pa.table({"k": pa.array(range(110), pa.int64())})
    with nodes_of(place, 2) as nodes:
        tables = {"a": asked, "c": penstock.relation(place, nodes=True)}
        found = penstock.sql("SELECT c.* FROM a JOIN c ON a.k = c.k", tables)
        assert sum(node.counts.entered for node in nodes) > 0
    assert rows_of([found]) == answer_of(kept, "relation by key 5")
