"""Options that nobody means: one line for each, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

QUERY = "SELECT a.id FROM a JOIN b ON b.t BETWEEN a.t - 10 AND a.t + 10"
HUGE = "9" * 20


def given(folder: Path, *more: str) -> list[str]:
    named = [f"--table={name}={folder / name}.parquet" for name in "ab"]
    return ["sql", QUERY, *named, "--time=a=t", "--time=b=t", *more]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (f"--rows={HUGE}", "rows must be"),
        ("--rows=", "takes a whole number"),
        ("--rows=a=", "takes NAME=VALUE"),
        (f"--rows={'9' * 5000}", "takes a whole number"),
        (f"--within={HUGE}d", "at most 999999999 days"),
        ("--within=-1", "a number, or a duration"),
        (f"--disorder={HUGE}{HUGE}s", "at most 999999999 days"),
        (f"--scale=a.x={HUGE}", "scale of a.x must be 0 to"),
        ("--scale=a.x=19", "must be 0 to 18"),
        ("--scale=a.x=-1", "must be 0 or more"),
        ("--param==", "takes NAME=VALUE"),
        ("--time=z=t", "--time gives|time is given for z"),
        ("--show=-1", "takes a number of rows"),
        ("--threads=0", "at least one thread"),
        ("--threads=99999999999999999999", "at most 4096 threads"),
        ("--metrics-port=99999999", "cannot serve metrics|port"),
        ("--metrics-port=-1", "cannot serve metrics|port"),
        ("--device=", "no device named ''"),
        ("--device=\x01", "no device named"),
        ("--out=.", "it is a folder"),
        ("--out=..", "it is a folder"),
        ("--out=/", "it is a folder"),
        ("--out=", "it is a folder"),
        ("--out=x.txt", "cannot tell the format"),
        ("--out=/proc/x.csv", "cannot write /proc/x.csv: no files can be made in /proc"),
        ("--out=/no/such/folder/x.csv", "there is no folder /no/such/folder"),
        ("--stats=/proc/x.json", "no files can be made in /proc"),
        ("--trace=.", "it is a folder"),
        ("--table=c=none.csv", "there is no file none.csv"),
        ("--table=a=", "takes NAME=FILE"),
        ("--address=x", "address"),
        ("--units=-1", "units"),
    ],
)
def test_options(cli, tables, option, message):
    out, err, status = cli(*given(tables, option))
    assert status != 0
    assert len(err.strip().splitlines()) == 1, err
    assert any(part in err for part in message.split("|")), err
    assert out == ""
    assert [p.name for p in tables.iterdir() if "partial" in p.name] == []


@pytest.mark.parametrize("show", [0, 1, 10**20])
def test_a_show_of_any_size(cli, tables, show):
    out, _, status = cli(*given(tables, f"--show={show}"))
    assert status == 0
    assert (len(out.splitlines()) > 3) == (show > 3)


@pytest.mark.parametrize("arguments", [["--help"], ["sql", "--help"], ["devices"], None])
def test_a_reader_that_has_enough_is_no_failure(tables, arguments):
    """As with ``| head -1``: the pipe is closed before anything is written."""
    arguments = given(tables) if arguments is None else arguments
    reader, writer = os.pipe()
    os.close(reader)
    code = "from penstock.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    assert "Exception" not in done.stderr
