"""Without an optional package: what is missing and how to get it, before anything is done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import spark_bridge
from penstock.cli.demo import _PACKAGES
from penstock.host.device.registry import open_device
from penstock.uses import UnusedError

ROOT = Path(__file__).parents[2]


#: Hides packages from whoever imports them or looks for them.
_HIDE = """import importlib.machinery, sys
find = importlib.machinery.PathFinder.find_spec
def hiding(name, *args):
    return None if name.partition(".")[0] in {hidden} else find(name, *args)
importlib.machinery.PathFinder.find_spec = hiding
"""


def python(code: str, missing: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which packages are not to be had."""
    program = [sys.executable, "-c", _HIDE.format(hidden=missing.split()) + code, *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=120)


def test_the_demo_looks_for_all_that_it_needs(tmp_path: Path) -> None:
    code = "from penstock.cli.main import run; run()"
    done = python(code, " ".join(_PACKAGES), "demo", "--out", str(tmp_path / "demo"))
    assert done.returncode == 7
    names, extras = ", ".join(_PACKAGES), ",".join(_PACKAGES.values())
    assert done.stderr.startswith(f"penstock: the demo needs {names}, which are not installed; ")
    assert f"pip install '.[{extras}]' in your checkout" in done.stderr
    assert not (tmp_path / "demo").exists()


def test_the_bridge_needs_spark() -> None:
    code = (
        "from penstock import spark_bridge\n"
        "from penstock.errors import MissingToolError\n"
        "for name in spark_bridge.__all__:\n"
        "    try: getattr(spark_bridge, name)\n"
        "    except MissingToolError as error: print(error)\n"
    )
    done = python(code, "pyspark")
    assert not done.stderr
    needs = "needs pyspark, which is not installed; run pip install '.[spark]' in your checkout"
    said = done.stdout.splitlines()
    assert {line.partition(" ")[0].partition(".")[2] for line in said} >= {"sql", "stream", "join"}
    assert all(needs in line for line in said)


def test_nanoseconds_are_printed_without_pandas(tmp_path: Path) -> None:
    times = pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns"))
    columns = {
        "at": times,
        "zoned": times.cast(pa.timestamp("ns", "UTC")),
        "took": times.cast(pa.int64()).cast(pa.duration("ns")),
        "day": pa.array([1, 2], pa.time64("ns")),
        "span": pa.StructArray.from_arrays([times], ["start"]),
        "all": pa.array([[1], []], pa.list_(pa.timestamp("ns"))),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    code = (
        "import pyarrow.parquet as pq\nfrom penstock.cli.row_output import show\n"
        "table = pq.read_table(sys.argv[1])\n"
        "for name in table.schema.names: show(table.select([name]), 2)\n"
    )
    done = python(code, "pandas", str(tmp_path / "a.parquet"))
    assert not done.stderr
    moment = "2023-11-14 22:13:20.123456789"
    assert [line.strip() for line in done.stdout.splitlines()] == [
        *("at", moment, "NULL"),
        *("zoned", f"{moment}Z", "NULL"),
        *("took", "1700000000.123456789 s", "NULL"),
        *("day", "00:00:00.000000001", "00:00:00.000000002"),
        *("span", f"{{'start': '{moment}'}}", "{'start': None}"),
        *("all", "['1970-01-01 00:00:00.000000001']", "[]"),
    ]


@pytest.mark.parametrize("module", [penstock, spark_bridge])
def test_what_is_loaded_on_use_is_listed(module: object) -> None:
    assert set(module.__all__) <= set(dir(module))  # type: ignore[attr-defined]


def test_lazy_packages_are_all_tested() -> None:
    lazy = {
        file.parent.name
        for folder in ("penstock", "host", "hw", "sim", "spark_bridge")
        for file in (ROOT / folder).rglob("__init__.py")
        if "def __getattr__" in file.read_text(encoding="utf-8")
    }
    assert lazy == {"penstock", "spark_bridge"}


def test_version() -> None:
    assert penstock.__version__.count(".") >= 1


@pytest.mark.parametrize("device", ["cpu", "rtl", "amaranth", "fjoin"])
def test_an_option_that_a_device_lacks(device: str) -> None:
    with pytest.raises(UnusedError, match=f"speed= is not for the device {device}: it takes .+; l"):
        open_device(device, speed=3)
