"""``penstock plan --relation``: what rate a join with a relation sustains in how much memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from penstock.host.lookup.algorithm import Algorithm
from penstock.host.lookup.calibrate import calibrate
from penstock.host.lookup.memory import split_of
from penstock.host.lookup.model import Prediction, UnitCosts, predict
from penstock.host.lookup.tuner import StreamLoad, shape_of, tuned
from penstock.host.relation import Version, open_folder

from ..errors import UsageError
from ..words import count, many, per_second
from . import values
from .options import group, option
from .terminal import NUMBERS, results, say, table


@group
class LookupLoadArguments:
    """A relation, and the stream that looks rows up in it."""

    relation: str | None = option("Plan a join with this relation instead of one of two streams.")
    zipf: float = option("Exponent of the Zipf distribution of the stream's keys.", default=1.0)
    absent: float = option("Share of the stream's rows whose key the relation lacks.", default=0.0)
    memory: str = option("Memory of a join with a relation.", default="128MB")
    row_bytes: float = option("Bytes of a row of the stream.", default=64.0)

    def check(self) -> None:
        """Refuse numbers out of range.

        Raises
        ------
        UsageError
        """
        if not 0 <= self.zipf <= 4:
            raise UsageError(f"--zipf must be from 0 to 4, not {self.zipf:g}")
        if not 0 <= self.absent <= 1:
            raise UsageError(f"--absent is a share, from 0 to 1, not {self.absent:g}")
        if not 1 <= self.row_bytes <= 1e9:
            raise UsageError(f"--row-bytes must be from 1 to 1e9, not {self.row_bytes:g}")


def plan_lookup(arguments: LookupLoadArguments, rate: float | None) -> dict[str, Any]:
    """Predict each algorithm; of ``auto``, also the memory that a rate needs."""
    arguments.check()
    memory = values.size(arguments.memory, "memory")
    with closing(open_folder(str(arguments.relation), "cannot be planned")) as stored:
        if not stored.found_by:
            raise UsageError(
                f"{arguments.relation} is clustered, so rows of the stream meet all pages that may "
                "match, which depends on the condition: run it on a part of the stream instead"
            )
        version = stored.version()
        costs = calibrate(version, stored.schema.names)
        predictions = {
            str(one): vars(_predicted(version, arguments, memory, one, costs)) for one in Algorithm
        }
        report: dict[str, Any] = {
            "relation": stored.name,
            "version": version.number,
            "rows": version.rows,
            "bytes": version.bytes,
            "memory_bytes": memory,
            "zipf": arguments.zipf,
            "algorithms": predictions,
            "rate_per_s": rate,
        }
        if rate is not None:
            report["memory_needed_bytes"] = _needed(version, arguments, costs, rate)
    return report


def _predicted(
    version: Version,
    arguments: LookupLoadArguments,
    memory: int,
    algorithm: Algorithm,
    costs: UnitCosts,
) -> Prediction:
    """Predict how an algorithm performs, with memory split for this load if it is tuned."""
    load = StreamLoad(arguments.row_bytes, arguments.zipf, arguments.absent)
    split = (
        tuned(version, memory, algorithm, load, costs)
        if algorithm is Algorithm.AUTO
        else split_of(version, memory, arguments.row_bytes, algorithm)
    )
    return predict(algorithm, shape_of(version, split, load), costs)


def _needed(
    version: Version, arguments: LookupLoadArguments, costs: UnitCosts, rate: float
) -> int | None:
    """The least memory, a power of two, with which ``auto`` sustains a rate; None if none does."""
    for memory in _memories(version):
        try:
            prediction = _predicted(version, arguments, memory, Algorithm.AUTO, costs)
        except UsageError:  # too little for this relation
            continue
        if prediction.rate >= rate:
            return memory
    return None


def _memories(version: Version) -> Iterator[int]:
    memory = 1 << 20
    while memory <= 4 * max(version.bytes, 1 << 20):
        yield memory
        memory *= 2


def show_lookup(report: dict[str, Any]) -> None:
    """Print a plan of a join with a relation."""
    say(
        f"{report['relation']}, version {report['version']}: {many(report['rows'], 'row')}, "
        f"{report['bytes'] / 1e6:.1f} MB; {report['memory_bytes'] / 1e6:.1f} MB of memory, keys by "
        f"Zipf {report['zipf']:g}"
    )
    rows = (
        (name, count(round(row["rate"])), f"{row['hits']:.0%}", f"{row['wait_s']:.2f} s")
        for name, row in report["algorithms"].items()
    )
    names = "algorithm", "rows/s", "keys in memory", "waiting"
    results.print(table(*names, rows=rows, right=NUMBERS))
    rate = report["rate_per_s"]
    if rate is None:
        return
    auto = report["algorithms"]["auto"]["rate"]
    if auto >= rate:
        say(f"{per_second(rate, 'rows')} are sustained, at {rate / auto:.0%} of what auto can")
    else:
        say(f"{per_second(rate, 'rows')} are more than auto sustains with this memory")
    needed = report["memory_needed_bytes"]
    say(
        "no memory is enough on this machine: several lanes are needed"
        if needed is None
        else f"{needed / (1 << 20):,.0f} MiB are enough for that rate"
    )
