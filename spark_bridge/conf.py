"""Settings of the bridge: one table of keys under ``spark.penstock``, read once on the driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from penstock.errors import UsageError

from .shown import is_classic
from .text_values import flag, number, one_of, whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "spark.penstock."

#: Ways to cut a batch join into lanes.
PARTITIONINGS = ("auto", "rows", "time", "grid", "keys")

#: Cells whose rows a driver counts: two arrays, and as many rows of a small job.
_MOST_CELLS = 1 << 20


_tolerance = number("a number, 0 or more, such as 0.05", lambda value: value >= 0)


def _port(text: str) -> int | None:
    if text.strip() and not (text.strip().isdecimal() and int(text) < 1 << 16):
        raise ValueError("a port, 0 to 65535, or empty")
    return int(text) if text.strip() else None


def key(name: str, default: Any, parse: Callable[[str], Any]) -> Any:
    """A field of :class:`Conf`: its key without the prefix, its default, and how it is read."""
    return field(default=default, metadata={"key": name, "parse": parse})


@dataclass(frozen=True, kw_only=True)
class Conf:
    """Settings of a query, as they travel to the tasks. Arguments of a call go before them.

    docs/spark/tables.md has this list by key.

    Parameters
    ----------
    device : str
        device of the tasks, with its options: `cpu`,
        `remote?address=unix:///run/penstock.sock`. Empty: `PENSTOCK_DEVICE` of the
        executor's environment, then `cpu`
    resource : str
        Spark resource whose address, where a task has one, names its device
    fallback : str
        `cpu`: tasks whose device cannot be opened, or cannot run the query, use the CPU
        device
    device_tasks : int
        tasks of one host that use a device at a time. 0: any number on `cpu` and `remote`,
        one on every other device
    wait_seconds : int
        seconds in which a task must get its turn on it
    partitioning : str
        how a batch join is cut into lanes
    lanes : int
        most lanes of a batch join; 0: from statistics
    lane_rows : int
        rows of the divided side for which another lane is worth while
    most_lane_rows : int
        rows of the divided side that a lane holds in memory; more rows make more lanes
    part_rows : int
        rows of the other side that a lane reads at a time
    routing_planner : str
        how lanes get keys: `mnrt` splits as few keys as it can, `qmmp` moves as few rows, `hash`
        splits and moves none, so that a frequent key makes a busy lane
    routing_tolerance : float
        how far a lane's work may be above the mean, as a share of it
    routing_cells : int
        cells of the hash of a key; a cell is what goes to one lane or is split, and rows with a
        NULL key have one more
    pruning : bool
        whether pairs that cannot match are left out before the device sees them
    resident : bool
        whether blocks of a streaming join's window stay prepared in the workers, and loaded
        in a device server, between micro-batches; and whether a worker keeps what it has read of
        a relation between tasks
    resident_bytes : int
        about how many bytes of such blocks a Python worker keeps at most, and beside them of
        joins with relations
    lookup_memory : int
        bytes that a task has for a relation's index, its pages, the rows of it that are kept, and
        rows that wait for them
    output_rows : int
        most rows of a batch that goes to Spark
    output_bytes : int
        about how many bytes such a batch has at most
    metrics_port : int or None
        port of the driver's machine where Prometheus and `penstock top` are answered about
        streaming joins; 0 takes a free one. Empty: none
    """

    device: str = key("device", "", str.strip)
    resource: str = key("device.resource", "fpga", str.strip)
    fallback: str = key("device.fallback", "none", one_of("none", "cpu"))
    device_tasks: int = key("device.tasks", 0, whole(0))
    wait_seconds: int = key("device.waitSeconds", 600, whole(1))
    partitioning: str = key("batch.partitioning", "auto", one_of(*PARTITIONINGS))
    lanes: int = key("batch.lanes", 0, whole(0))
    lane_rows: int = key("batch.laneRows", 1 << 16, whole(1))
    most_lane_rows: int = key("batch.mostLaneRows", 1 << 21, whole(1))
    part_rows: int = key("batch.partRows", 1 << 19, whole(1))
    routing_planner: str = key("routing.planner", "mnrt", one_of("mnrt", "qmmp", "hash"))
    routing_tolerance: float = key("routing.tolerance", 0.05, _tolerance)
    routing_cells: int = key("routing.cells", 1024, whole(1, _MOST_CELLS))
    pruning: bool = key("pruning", True, flag)
    resident: bool = key("streaming.resident", True, flag)
    resident_bytes: int = key("streaming.residentBytes", 1 << 29, whole(0))
    lookup_memory: int = key("lookup.memoryBytes", 1 << 27, whole(1))
    output_rows: int = key("output.batchRows", 1 << 16, whole(1))
    output_bytes: int = key("output.batchBytes", 1 << 24, whole(1))
    metrics_port: int | None = key("metrics.port", None, _port)

    def fitting_rows(self, row_bytes: float) -> int:
        """Most rows of a batch that goes to Spark, by the mean bytes of its rows."""
        return max(1, min(self.output_rows, int(self.output_bytes / max(row_bytes, 1.0))))

    @staticmethod
    def read(spark: SparkSession) -> Conf:
        """The settings of a session.

        Raises
        ------
        UsageError
            A value cannot be read, or a key under ``spark.penstock`` is none of these.
        """
        known = {PREFIX + f.metadata["key"]: f for f in fields(Conf)}
        values: dict[str, Any] = {}
        for name, text in _all_of(spark).items():
            if not name.startswith(PREFIX):
                continue
            if name not in known:
                # Without the prefix, which any two have in common.
                names = [known_name.removeprefix(PREFIX) for known_name in known]
                near = get_close_matches(name.removeprefix(PREFIX), names, n=1)
                remedy = (
                    f"did you mean {PREFIX}{near[0]}?"
                    if near
                    else "docs/spark/tables.md lists them"
                )
                raise UsageError(f"there is no setting {name}; {remedy}")
            try:
                values[known[name].name] = known[name].metadata["parse"](text or "")
            except ValueError as error:
                raise UsageError(f"{name} is {text!r}, and must be {error}") from None
        return Conf(**values)


def _all_of(spark: SparkSession) -> dict[str, str]:
    """All settings of a session."""
    if not is_classic(spark):
        return dict(spark.conf.getAll)
    # PySpark asks Java for each of them twice, which takes longer than a small join may.
    pairs = spark._jsparkSession.conf().getAll().mkString("\0").split("\0")  # type: ignore
    return dict(pair.split(" -> ", 1) for pair in pairs)
