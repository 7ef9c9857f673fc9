"""A Spark session, started once, and DataFrames partitioned in every way."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from penstock.errors import MissingToolError
from penstock.spark_bridge.java import ensure_java

#: What Spark 4.1 itself warns of: it leaves sockets to the garbage collector, and its comparison of
#: DataFrames imports all of pandas-on-Spark.
_OF_SPARK_4_1 = ["ignore:unclosed <socket:ResourceWarning", "ignore:'PYARROW_IGNORE:UserWarning"]


def pytest_configure(config: pytest.Config) -> None:
    try:
        old = version("pyspark").startswith("4.1.")
    except PackageNotFoundError:
        return
    for line in _OF_SPARK_4_1 if old else ():
        config.addinivalue_line("filterwarnings", line)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Two cores, and three attempts per task: ``local[2]`` alone never retries."""
    pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")
    try:
        ensure_java()
    except MissingToolError as error:
        pytest.skip(str(error))
    from pyspark.sql import SparkSession

    from tests.spark_bridge.kit import class_archive

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Short queries only: the optimising compiler costs more than it saves.
    java = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {class_archive.writing_options()}"
    session = (
        SparkSession.builder.master("local[2,3]")
        .appName("penstock tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.driver.extraJavaOptions", java)
        # A zone with missing and repeated hours: times must not depend on it.
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    # Tests that make tasks fail would fill the output with stack traces.
    session.sparkContext.setLogLevel("OFF")
    yield session
    class_archive.end(session)


@pytest.fixture(scope="session")
def laid_out(spark):
    """Both inputs in a layout. Cached, since the order of rows must not change between reads."""
    from tests.spark_bridge.kit.batch import LAYOUTS, SCHEMA, rows_of

    made = {}

    def make(layout: str):
        if layout not in made:
            made[layout] = {
                name: LAYOUTS[layout](spark.createDataFrame(rows_of(seed, count), SCHEMA)).cache()
                for name, seed, count in (("a", 1, 400), ("b", 2, 300))
            }
        return made[layout]

    return make


@pytest.fixture(scope="session")
def asked_tables():
    """The tables of tests/sql."""
    from tests.penstock.kit.people import every_table

    return every_table()


@pytest.fixture(scope="session")
def answers(spark, asked_tables):
    """Gives Spark's rows of a query of tests/sql."""
    from tests.spark_bridge.kit.oracle import Answers

    return Answers(spark, asked_tables)
