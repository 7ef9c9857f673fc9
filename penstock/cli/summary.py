"""Summary of the work behind the rows of a query, for people and for ``--stats``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.host.execute.stats import Stats
from penstock.host.grouping import GroupedTable
from penstock.host.join.lookup.base import RelationJoin
from penstock.host.join.table.operator_join import OperatorJoin
from penstock.host.join.table.table_join import TableJoin
from penstock.host.workers.table import WorkerTable

from ..api.table_query import Answer, LookedUpTable, PartsTable
from .terminal import count


@dataclass(frozen=True)
class Summary:
    """Work behind the rows of a query.

    Parameters
    ----------
    rows : int
    noun : str
        Word for the rows: "rows" or "groups".
    work : str
        The rest of the sentence that begins with the rows.
    cycles : str
        Another sentence, about cycles of a simulated device, if there is one.
    counts : mapping of str to number
    """

    rows: int
    noun: str
    work: str
    cycles: str = ""
    counts: Mapping[str, Any] = field(default_factory=dict)


def summary(answer: Answer, seconds: float) -> Summary:
    """Summarise rows that have been read, in so many seconds."""
    if isinstance(answer, TableJoin):
        return _of_join(answer.stats, is_operator=isinstance(answer, OperatorJoin))
    if isinstance(answer, LookedUpTable):
        return _of_lookup(answer.join, seconds)
    if isinstance(answer, PartsTable):
        return Summary(answer.table.num_rows, "rows", f" in {seconds:.3f} s, run in parts")
    return _of_groups(answer, seconds)


def _of_join(stats: Stats, *, is_operator: bool) -> Summary:
    rate = stats.pairs_evaluated / stats.seconds if stats.seconds else 0.0
    share = stats.pairs_pruned / max(stats.pairs_pruned + stats.pairs_evaluated, 1)
    pruned = f" ({share:.0%} pruned)" if share >= 0.005 else ""
    work = (
        f"; {count(stats.pairs_in_window)} pairs in the window, "
        f"{count(stats.pairs_evaluated)} evaluated{pruned} in {stats.seconds:.3f} s on "
        f"{stats.device}{', window operator' if is_operator else ''} ({rate / 1e9:.3g} G/s)"
    )
    note = ""
    if "cycles" in stats.counters:
        name, noun = ("tuples", "tuples") if is_operator else ("window_flits", "window tuples")
        tuples, cycles = stats.counters.get(name, 0), stats.counters["cycles"]
        per_cycle = tuples / max(cycles, 1)
        note = f"{count(cycles)} cycles, {count(tuples)} {noun} ({per_cycle:.3g} per cycle)"
    counts = {"operator": "window" if is_operator else "range", **stats.as_dict()}
    return Summary(stats.rows, "rows", work, note, counts)


def _of_groups(groups: GroupedTable | WorkerTable, seconds: float) -> Summary:
    """Summarise groups, or a join by workers."""
    rate = groups.rows_in / seconds if seconds else 0.0
    is_join = isinstance(groups, WorkerTable) and len(groups.arrived) > 1
    noun, none = ("rows", "meet nothing") if is_join else ("groups", "are in none")
    work = f" of {count(groups.rows_in)} rows in {seconds:.3f} s ({rate / 1e6:.3g} M/s)"
    if groups.timeless:
        work += f"; {count(groups.timeless)} rows without an event time {none}"
    counts = {
        "rows": groups.rows_out,
        "rows_in": groups.rows_in,
        "timeless": groups.timeless,
        "filtered": groups.filtered,
        "seconds": seconds,
    }
    return Summary(groups.rows_out, noun, work, counts=counts)


def _of_lookup(join: RelationJoin, seconds: float) -> Summary:
    counts = join.counts
    rate = join.rows_in / seconds if seconds else 0.0
    kept = ""
    if counts.rows and counts.hits:
        kept = f", {counts.hits / counts.rows:.0%} of the keys found in memory"
    work = (
        f"; {count(join.rows_in)} of {join.plan.outer.alias} looked up in version "
        f"{join.version.number} of {join.relation.name} in {seconds:.3f} s "
        f"({rate / 1e6:.3g} M/s){kept}; {count(counts.pages)} pages read"
    )
    numbers = asdict(counts)
    numbers |= {"sought": counts.rows, "rows": join.stats.rows, "seconds": seconds}
    return Summary(join.stats.rows, "rows", work, counts=numbers)
