"""``penstock sql`` with a relation: a file is joined with a stored table, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic

import pyarrow as pa

from penstock.host.device.base import Device
from penstock.host.execute.running import Running
from penstock.host.execute.trace import Trace
from penstock.host.grouping import GroupedTable
from penstock.host.join.lookup.as_of import at_versions
from penstock.host.join.lookup.base import RelationJoin
from penstock.host.join.lookup.opening import open_lookup
from penstock.host.join.lookup.source import RelationTable, relation, relation_of
from penstock.host.rows.files import write_text

from ..plan.group_query import GroupQuery, lookup_of
from ..plan.lookup import LookupPlan
from ..uses import Entrance
from . import values
from .grouping import write_groups
from .inputs import Asked, Texts
from .options import group, option
from .output import OutputArguments, run, show
from .terminal import count, note

#: In place of addresses of nodes: those that the relation has a record of.
_RING = "ring"


@group
class LookupArguments:
    """Relations in the place of tables."""

    relation: Texts = option("NAME=FOLDER of a stored relation, in the place of a table; repeat.")
    nodes: str | None = option(
        "Where its rows are asked for: `ring` for the nodes that it has a record of, or addresses "
        "(tcp://HOST:PORT,...)."
    )
    nodes_token: Path | None = option("File with the token that these nodes want.")
    memory: str | None = option("Memory of a join with a relation: 128MB.")
    algorithm: str = option(
        "How a relation is looked up: auto, meshjoin, hybridjoin, cachejoin, d-cachejoin.",
        default="auto",
    )

    def given(self) -> dict[str, RelationTable]:
        """The relations, by their names in the query."""
        return {
            name: relation(
                location,
                algorithm=self.algorithm,
                nodes=self.nodes == _RING or (self.nodes.split(",") if self.nodes else False),
                token_file=self.nodes_token if self.nodes else None,
            )
            for name, location in values.pairs(self.relation or (), "relation").items()
        }

    def read_by(self, asked: Asked) -> tuple[Asked, dict[str, RelationTable]]:
        """The query without the versions that it names, and the relations at these versions."""
        given = self.given()
        if not given:
            return asked, given
        text, relations = at_versions(asked.query, given, asked.options.chosen())
        return replace(asked, text=text, text_file=None), dict(relations)

    @property
    def memory_bytes(self) -> int | None:
        """The memory, if it is given."""
        return None if self.memory is None else values.size(self.memory, "memory")


def one_of(relations: Mapping[str, RelationTable]) -> tuple[str, RelationTable]:
    """The relation of a join, and its name.

    Raises
    ------
    QueryError
        There are several.
    """
    found = relation_of(relations)
    assert found is not None
    return found


def join_with_relation(
    asked: Asked,
    entrance: Entrance,
    relations: Mapping[str, RelationTable],
    memory_bytes: int | None,
    device: Device,
    output: OutputArguments,
    running: Running,
) -> None:
    """Join a file with a relation, in a fixed amount of memory.

    Raises
    ------
    QueryError
        The query is more than that.
    """
    name, table = one_of(relations)
    with closing(table.open()) as stored:
        query = asked.compiled(entrance, {name: stored.schema}, relation=name)
        found = query.query
        is_above = isinstance(found, GroupQuery)
        plan = LookupPlan(lookup_of(found), name, stored.found_by)
        source = query.files.source(plan.outer.table)
        ordered = running.ordered or is_above  # rows of a group are folded in their order
        options = table.options(memory_bytes, ordered=ordered, pruning=running.sizes)
        join = open_lookup(plan, source.schema, stored, [device], replace(options, refresh=False))
        if is_above:
            groups = GroupedTable(found, source.schema, source.batches, lookup=join)
            write_groups(groups, output)
            return

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in source.batches:
                yield from join.push(batch)
            yield from join.end()

        began = monotonic()
        first = run(rows(), join.schema, output, Trace(False))
        seconds = monotonic() - began
    if output.out is None:
        show(first, join.stats.rows)
    _summarise(join, seconds, output.out)
    if output.stats is not None:
        counts = asdict(join.counts)
        counts |= {"sought": counts["rows"], "rows": join.stats.rows, "seconds": seconds}
        write_text(output.stats, json.dumps(counts, indent=2) + "\n")


def _summarise(join: RelationJoin, seconds: float, out: Path | None) -> None:
    where = "" if out is None else f" -> {out}"
    counts, alias = join.counts, join.plan.outer.alias
    rate = join.rows_in / seconds if seconds else 0.0
    kept = ""
    if counts.rows and counts.hits:
        kept = f", {counts.hits / counts.rows:.0%} of the keys found in memory"
    note(
        f"{count(join.stats.rows)} rows{where}; {count(join.rows_in)} of {alias} looked up in "
        f"version {join.version.number} of {join.relation.name} in {seconds:.3f} s "
        f"({rate / 1e6:.3g} M/s){kept}; {count(counts.pages)} pages read"
    )
