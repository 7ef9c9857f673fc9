"""Ranks on several hosts: a network lies between them, here TCP on one machine."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.host.workers import Workers
from tests.host.workers.kit.groups import batches, comparable, opened, wanted
from tests.host.workers.kit.together import all_of, together
from tests.host.workers.ranks.test_ranks import feeds_of, push_all, without_first


@pytest.fixture(autouse=True)
def _tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCX_TLS", "tcp,self")


@pytest.mark.parametrize(
    ("size", "hosts"),
    [(2, 2), *(pytest.param(*n, marks=pytest.mark.slow) for n in [(4, 2), (3, 3)])],
)
def test_ranks_of_several_hosts_compute_what_one_process_does(size: int, hosts: int) -> None:
    given = batches(size, 20)

    def rank(workers: Workers) -> pa.Table:
        with opened(workers) as stream:
            push_all(stream, feeds_of(workers, given))
            return pa.concat_tables([stream.poll(), stream.close()])

    found = pa.concat_tables(all_of(together(size, rank, hosts)))
    assert without_first(comparable(found)) == without_first(wanted(given))
