"""Groups of what rows look up, on workers: each looks its own rows up."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock import Running
from penstock.host.relation import RelationOptions, build
from tests.host.grouping.test_lookups import ADS, KEY, QUERIES, WINDOW, events, expected, plain


@pytest.mark.parametrize(
    "name",
    [
        "by columns of both",
        *(pytest.param(n, marks=pytest.mark.slow) for n in QUERIES if n != "by columns of both"),
    ],
)
def test_streams_go_on_from_a_checkpoint(name: str, tmp_path: Path) -> None:
    build(ADS, str(tmp_path / "ads"), RelationOptions(key=("ad",), page_bytes=512)).close()
    rows = events(5)
    text = QUERIES[name].format(window=WINDOW, key=KEY)
    found = []

    def opened(workers: int):
        schemas = {"e": rows.schema, "c": penstock.relation(tmp_path / "ads")}
        flow = penstock.Flow(running=Running(ordered=True))
        return penstock.stream(
            text,
            schemas,
            disorder=timedelta(seconds=1),
            flow=flow,
            workers=workers,
            checkpoint=tmp_path / "c",
        )

    stream = opened(2)
    for at in range(0, 200, 50):
        stream.push("e", rows.slice(at, 50))
    stream.stop()
    stream = opened(1)
    assert stream.position("e") == 200
    stream.push("e", rows.slice(200))
    polled = stream.close()
    while polled is not None:
        found.append(polled[1])
        polled = stream.poll()
    assert len(found) >= 2
    assert plain(pa.concat_tables(found)) == expected(QUERIES[name], rows)
