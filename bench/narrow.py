"""What narrow units find in vain, of the known queries in band form: ``python -m bench.narrow``.

Needs PENSTOCK_DATA. The CPU device stands for the card, as if its units were narrow: the pairs that
it finds are those that such units find, and all else is what the host does for any card. ``--rtl``
runs the shorter queries on the Verilated kernel instead, with 64 units. For each query, first with
the units that the planner chooses, then with 16 bits whatever it would choose:

- bits of the units, and of the codes;
- pairs found, and which share of them was false, beside what the sample said;
- the share of the host's processor time, tasks of the device not counted, that the full test took.

Numbers of rows are checked. The table also goes to ``build/bench/narrow.json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bench.peers.files import data_folder
from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.execute import units
from penstock.host.join.table.table_join import TableJoin
from penstock.query.compiler import compile_query
from tests.host.kit.narrow_device import NarrowDevice

QUERIES = ("U2", "F1", "F2", "F3", "F4", "Z1", "Z2", "G1", "G3", "S2", "N2")
#: Evaluations of a query that is not too long to be simulated: some seconds.
MOST_SIMULATED = 20_000_000
UNITS = 64
BITS = 16
#: Most false pairs of the pairs found, and most of the host's time, that are allowed.
MOST_FALSE, MOST_TIME = 0.10, 0.05
#: Runs of which the middle one is shown.
RUNS = 5


@dataclass(frozen=True)
class Measured:
    """One query on one device.

    Parameters
    ----------
    bits : int or None
        Of the units; None where they have all bits of the codes.
    expected : float or None
        Share of false pairs that the sample said; None where nothing was to choose.
    false : float
        Share of false pairs.
    time : float or None
        Share of the host's time; None where a simulation takes part of that.
    """

    query: str
    units: str
    bits: int | None
    rows: int
    pairs: int
    expected: float | None
    false: float
    test_us: int
    time: float | None

    @property
    def is_met(self) -> bool:
        return self.false <= MOST_FALSE and (self.time or 0.0) <= MOST_TIME


@contextmanager
def _expectations() -> Iterator[list[units.WidthEstimate]]:
    """What samples say meanwhile."""
    said: list[units.WidthEstimate] = []
    inner = units.UnitSample.estimate

    def note(sample: units.UnitSample, bits: int) -> units.WidthEstimate:
        said.append(inner(sample, bits))
        return said[-1]

    units.UnitSample.estimate = note
    try:
        yield said
    finally:
        units.UnitSample.estimate = inner


def _device(bits: int | None, rtl: bool) -> Device:
    if rtl:
        return open_device("rtl", units=UNITS, fast=True, key_bits=bits)
    return NarrowDevice(open_device("cpu", threads=1), bits)


def measure(folder: Path, name: str, bits: int | None, rtl: bool = False) -> Measured:
    """Run a query on units of so many bits; None for as many as the planner chooses."""
    facts = json.loads((folder / "queries.json").read_text(encoding="utf-8"))[name]
    known = json.loads((folder / "expected.json").read_text(encoding="utf-8"))[name]
    tables = {side: pq.read_table(folder / f"{facts[side]}.parquet") for side in "rs"}
    where = f" WHERE {facts['where']}" if facts["where"] else ""
    query = compile_query(
        f"SELECT r.id AS r_id, s.id AS s_id FROM r JOIN s ON {facts['on']}{where}",
        {side: table.schema for side, table in tables.items()},
        time=dict.fromkeys("rs", facts["time"]),
        rows=facts["rows"],
    )
    with _device(bits, rtl) as device, _expectations() as said:
        began = time.process_time()
        join = TableJoin(query, tables, device, pruning=None)
        rows = sum(batch.num_rows for batch in join)
        host_s = time.process_time() - began - join.stats.busy_s
    if rows != known["matches"]:
        raise SystemExit(f"{name}: {rows} rows, not {known['matches']}")
    counters = join.stats.counters
    pairs, test_us = counters.get("narrow_pairs", rows), counters.get("narrow_test_us", 0)
    return Measured(
        name,
        "chosen" if bits is None else f"{bits} bits",
        counters.get("narrow_bits"),
        rows,
        pairs,
        said[-1].share if said else None,
        counters.get("false_pairs", 0) / max(pairs, 1),
        test_us,
        None if rtl else test_us / 1e6 / max(host_s, 1e-9),
    )


def _middle(folder: Path, name: str, bits: int | None, rtl: bool) -> Measured:
    runs = [measure(folder, name, bits, rtl) for _ in range(1 if rtl else RUNS)]
    middle = statistics.median_low(run.time or 0.0 for run in runs)
    return next(run for run in runs if (run.time or 0.0) == middle)


def main() -> int:
    """Measure all queries; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.narrow", description=__doc__)
    parser.add_argument("--rtl", action="store_true", help="on the Verilated kernel, short queries")
    parser.add_argument("query", nargs="*", default=QUERIES)
    options = parser.parse_args()
    folder = data_folder()
    if folder is None:
        parser.error("PENSTOCK_DATA names no folder with the real streams")
    known = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    found: list[Measured] = []
    for name in options.query:
        if options.rtl and known[name]["in_window"] > MOST_SIMULATED:
            continue
        found += [_middle(folder, name, bits, options.rtl) for bits in (None, BITS)]
    shown = Table(title="narrow units")
    for heading in ("query", "units", "bits", "rows", "pairs found", "false, expected", "false",
                    "test, us", "of the host's time", ""):  # fmt: skip
        shown.add_column(heading)
    for one in found:
        bits = "all, exact" if one.bits is None else str(one.bits)
        said = "" if one.expected is None else f"{100 * one.expected:.1f} %"
        share = "" if one.time is None else f"{100 * one.time:.2f} %"
        verdict = "" if one.units != "chosen" else "met" if one.is_met else "MISSED"
        shown.add_row(
            one.query, one.units, bits, str(one.rows), str(one.pairs), said,
            f"{100 * one.false:.1f} %", str(one.test_us), share, verdict,
        )  # fmt: skip
    Console(width=150).print(shown)
    out = Path("build/bench/narrow.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps([asdict(one) for one in found], indent=1), encoding="utf-8")
    return 0 if all(one.is_met for one in found if one.units == "chosen") else 1


if __name__ == "__main__":
    sys.exit(main())
