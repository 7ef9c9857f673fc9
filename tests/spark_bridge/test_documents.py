"""Pages of README and docs whose blocks need Spark run, block by block."""

from __future__ import annotations

import pytest

from tests.documents.test_pages import RUN, needs_spark
from tests.kit.page_run import run_page

#: Pages that take longer than a few seconds.
SLOW = {
    "docs/spark/routing.md",
    "docs/spark/tables.md",
    "docs/spark/relations.md",
    "docs/spark/sources.md",
    "docs/spark/workers.md",
}
#: What pages say that they print.
SHOWN = {"docs/spark/tables.md": "|  1|      7|\n|  2|      9|\n"}


@pytest.fixture
def session(spark):
    """The session, which has its settings again afterwards, and no stream that runs."""
    before = spark.conf.getAll
    yield spark
    for query in spark.streams.active:
        query.stop()
    after = spark.conf.getAll
    for key in after.keys() - before.keys():
        spark.conf.unset(key)
    for key, value in before.items():
        if after.get(key) != value:
            spark.conf.set(key, value)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page in SLOW else ())
        for page in RUN
        if needs_spark(page)
    ],
)
def test_a_page_runs(page, spark, session, tmp_path, capsys):
    names = run_page(page, tmp_path)
    assert names["spark"] is spark
    assert SHOWN.get(page, "") in capsys.readouterr().out
