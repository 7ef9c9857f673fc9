"""Micro-batches of a streaming join without Spark: what its tasks and its driver do, in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.host.emit.open_delivery import open_delivery
from penstock.host.join.step import Frontier, Share
from penstock.host.prune.sizes import DEFAULT_PRUNING
from penstock.plan.plan import plan
from penstock.plan.query import LEFT, RIGHT
from penstock.plan.window import FOREVER
from penstock.query.options import QueryOptions
from penstock.spark_bridge.blobs import BUCKET, SCHEMA, merge
from penstock.spark_bridge.compiled import Compiled
from penstock.spark_bridge.conf import Conf
from penstock.spark_bridge.devices import DeviceChoice
from penstock.spark_bridge.streaming.commit import BatchRecord
from penstock.spark_bridge.streaming.compaction import (
    choose_merges,
    merge_files,
    needed_files,
    replace_merged,
)
from penstock.spark_bridge.streaming.ingest import Ingest, IntakeReport
from penstock.spark_bridge.streaming.microbatch import are_merged
from penstock.spark_bridge.streaming.planning import planned
from penstock.spark_bridge.streaming.probe import run_share
from penstock.spark_bridge.streaming.routing import known_cells
from penstock.spark_bridge.streaming.spec import IS_RIGHT, JoinSpec, Rules
from penstock.spark_bridge.streaming.store import Store
from penstock.spark_bridge.types import output_schema


class Steps:
    """A join of two tables in micro-batches.

    Parameters
    ----------
    folder : Path
    text : str
    schemas : mapping of name to Schema
        Of the left and of the right table.
    time : str
        The column of their time.
    disorder : int
    resident : bool
        Whether parts of files stay prepared in this process.
    """

    def __init__(
        self,
        folder: Path,
        text: str,
        schemas: Mapping[str, pa.Schema],
        time: str,
        disorder: int,
        resident: bool,
    ) -> None:
        options = QueryOptions(time=dict.fromkeys(schemas, time))
        compiled = Compiled(text, schemas, options)
        conf = replace(Conf(), resident=resident)
        query = compiled.query()
        names = {s: {n: n for n in query.columns_of(s)} for s in (LEFT, RIGHT)}
        made = plan(query)
        output = output_schema(open_delivery(made, compiled.by_side()).schema)
        choice = DeviceChoice.read(None, None, conf)
        sides = {LEFT: disorder, RIGHT: disorder}
        self.spec = JoinSpec(compiled, sides, names, output, choice, DEFAULT_PRUNING)
        self.store = Store(str(folder))
        self.store.make()
        self.commit = BatchRecord()
        #: Messages with partial aggregates so far.
        self.merged = 0

    def run(
        self, rows: Mapping[str, Sequence[pa.Table]], lanes: int, rules: Rules | None
    ) -> pa.Table:
        """What leaves with a micro-batch; each side's tables are of as many partitions."""
        self.took(rows, lanes, rules)
        return self._output(self.commit, lanes)

    def took(self, rows: Mapping[str, Sequence[pa.Table]], lanes: int, rules: Rules | None) -> None:
        """Take in a micro-batch, without its output."""
        self.spec = replace(self.spec, routing=rules)
        before, batch = self.commit, self.commit.batch + 1
        cells = known_cells(self.spec, before)
        ingest = Ingest(self.spec, self.store, batch, before.after, cells)
        reports: dict[str, list[IntakeReport]] = {LEFT: [], RIGHT: []}
        for side, parts in rows.items():
            for part in parts:
                flag = pa.array([side == RIGHT] * part.num_rows, pa.bool_())
                flagged = part.append_column(IS_RIGHT, flag)
                for one in ingest.run(flagged.combine_chunks().to_batches()):
                    reports[side].append(IntakeReport.from_dict(one))
        after = {
            side: max([before.after[side], *(r.latest - self.spec.disorder[side] for r in own)])
            for side, own in reports.items()
        }
        files = {
            kind: {
                side: [r.files[kind] for r in own if kind in r.files]
                for side, own in reports.items()
            }
            for kind in ("new", "timeless", "late")
        }
        assert not any(files["late"].values())
        frontier = Frontier(self.spec.query(), before.after)
        commit = before.following(
            dict.fromkeys(reports, 0), dict.fromkeys(reports, 0), after=after,
            old=needed_files(frontier, before), **files,
        )  # fmt: skip
        samples = [one.sample for one in reports[LEFT] if one.sample is not None]
        routing = planned(self.spec, before, commit, samples, lanes)
        commit = BatchRecord.from_json(replace(commit, routing=routing).as_json())
        merges = choose_merges(frontier, commit)
        done = [(one, merge_files(self.spec, self.store, commit, one)) for one in merges]
        self.commit = replace(commit, old=replace_merged(commit.old, done))

    def rest(self, lanes: int) -> pa.Table:
        """What leaves if both sources end."""
        ended = {LEFT: FOREVER, RIGHT: FOREVER}
        last = self.commit.following({}, {}, after=ended, old=self.commit.blocks())
        return self._output(last, lanes)

    def _output(self, commit: BatchRecord, lanes: int) -> pa.Table:
        found = [
            batch
            for lane in range(lanes)
            for batch in run_share(self.spec, self.store, commit, Share(lane, lanes))
        ]
        if are_merged(self.spec, commit):
            found += self._merged(commit, lanes)
        return pa.Table.from_batches(found, schema=self.spec.output)

    def _merged(self, commit: BatchRecord, lanes: int) -> list[pa.RecordBatch]:
        """Groups of split cells, bucket by bucket."""
        blobs = [
            batch
            for lane in range(lanes)
            for batch in run_share(
                self.spec, self.store, commit, Share(lane, lanes), is_partial=True
            )
        ]
        buckets = pa.Table.from_batches(blobs, schema=SCHEMA)
        self.merged += buckets.num_rows
        found = []
        for bucket in range(lanes):
            own = buckets.filter(pc.field(BUCKET) == bucket).to_batches()
            found += merge(self.spec.compiled, self.spec.output, 1 << 16, iter(own))
        return found
