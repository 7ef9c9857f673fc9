"""One shard of the state design: its window in Spark's own state store."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from penstock.errors import FileError
from penstock.host.execute.residence import Residence
from penstock.host.execute.stats import Stats
from penstock.host.join.step import Block, Frontier, oldest
from penstock.host.rows.checksums import checksum
from penstock.host.rows.sides import Loaded
from penstock.plan.query import LEFT, RIGHT
from penstock.plan.window import FOREVER, NEVER

from ..metrics.figures import ShardFigures
from ..metrics.observed import COLUMNS, columns_of
from ..rows import message_of, table_of
from ..shown import with_modules
from .commit import Commit, StoredFile
from .compaction import choose_merges, merge_files, needed_files, replace_merged
from .identity import require_same
from .ingest import Admitted, admit, write
from .probe import StoredRows, run_step
from .spec import JoinSpec
from .store import RowStore


class StateRows(RowStore):
    """Rows in the state of one shard, by number.

    Parameters
    ----------
    handle : StatefulProcessorHandle
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._map = handle.getMapState("rows", "number long", "rows binary")
        self.following = 0

    def add(
        self, batch: int, table: pa.Table, block: Block, cells: Mapping[str, str] | None = None
    ) -> StoredFile:
        message, number = message_of(table), self.following
        self.following += 1
        self._map.updateValue((number,), (message,))
        # A failed attempt has used this number too, perhaps for other rows.
        name = f"{number}-{uuid.uuid4().hex}"
        seen = {"bytes": len(message), "checksum": checksum(message)}
        return StoredFile(**asdict(block), name=name, cells=cells, **seen)

    def read(self, file: StoredFile) -> pa.Table:
        number = _number(file)
        found = self._map.getValue((number,))
        if found is None or checksum(found[0]) != file.checksum:
            raise FileError(
                f"Spark's state of the join {'lacks' if found is None else 'has other'} rows "
                f"under number {number}; restore the checkpoint from a backup, or begin anew with "
                "another checkpointLocation"
            )
        return table_of(found[0]).combine_chunks()

    def remove(self, file: StoredFile) -> None:
        """Forget the rows under a name."""
        self._map.removeKey((_number(file),))


def _number(file: StoredFile) -> int:
    return int(file.name.partition("-")[0])


@dataclass(frozen=True)
class ShardRows(StoredRows):
    """Rows that a step reads in one shard.

    Parameters
    ----------
    keeps : dict of side to Loaded
        New rows that this shard stores; ``found`` has all new rows.
    """

    keeps: dict[str, Loaded] = field(default_factory=dict)

    def entering(self, side: str) -> Loaded:
        keeps, stored = self.keeps[side], self.commit.new[side]
        if self.residence is None or not stored or stored[0].rows < len(keeps.rows):
            return keeps
        # The block that was stored, which the next step finds prepared.
        (file,) = stored
        return Loaded.of_block(*self.block(side, file), NEVER, FOREVER)


@dataclass(frozen=True)
class _Arrived:
    """New rows of one side: ``every`` one of the micro-batch, and those ``kept`` by this shard."""

    every: Admitted
    kept: Admitted
    rows: int


class ShardProcessor(StatefulProcessor):
    """One shard of a join, with its window in Spark's state.

    Parameters
    ----------
    spec : JoinSpec
    keys : list of int
        Of all shards.
    wanted : mapping
        Identity of the query, as JSON has it.
    """

    def __init__(self, spec: JoinSpec, keys: list[int], wanted: Mapping[str, Any]) -> None:
        self.spec, self.keys, self.wanted = spec, keys, wanted

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return with_modules(partial(ShardProcessor, self.spec, self.keys, self.wanted)), ()

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._record = handle.getValueState("record", "text string")
        self._rows = StateRows(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        messages: list[Any] = [row for one in rows for row in one.itertuples(index=False)]
        messages.sort(key=lambda row: (row.part, row.number))
        before = self._before()
        frontier = Frontier(self.spec.query(), before.after)
        arrived = {
            side: self._arrived(frontier, side, [m for m in messages if m.is_right == is_right])
            for side, is_right in ((LEFT, False), (RIGHT, True))
        }
        commit = self._taken_in(frontier, before, arrived)
        nothing = dict.fromkeys(COLUMNS)
        new = {side: one.every.loaded for side, one in arrived.items()}
        keeps = {side: one.kept.loaded for side, one in arrived.items()}

        def read(home: Residence | None) -> ShardRows:
            return ShardRows(self.spec, self._rows, commit, home, found=new, keeps=keeps)

        ended: list[Stats] = []
        for batch in run_step(self.spec, self._scope, commit, read, ended.append):
            yield pd.DataFrame([{"rows": message_of(batch), **nothing}])
        self._put(commit)
        shard = self.keys.index(int(key[0]))
        figures = columns_of(
            ShardFigures.of(shard, ended[0]),
            commit.window(),
            arrived={side: one.rows for side, one in arrived.items()},
            late={side: len(one.every.late) for side, one in arrived.items()},
        )
        yield pd.DataFrame([{"rows": None, **figures}])

    def close(self) -> None:
        """Nothing is left open."""

    def _before(self) -> Commit:
        """The record of the shard's last micro-batch."""
        found = self._record.get() if self._record.exists() else None
        if found is None:
            self._scope = uuid.uuid4().hex
            return Commit()
        record = json.loads(found[0])
        self._scope = record.get("scope") or uuid.uuid4().hex
        require_same(record["query"], self.wanted, "the checkpoint")
        self._rows.following = record["following"]
        return Commit.of(record["commit"])

    def _put(self, commit: Commit) -> None:
        record = {
            "query": self.wanted,
            "following": self._rows.following,
            "scope": self._scope,
            "commit": commit.as_json(),
        }
        self._record.update((json.dumps(record),))

    def _arrived(self, frontier: Frontier, side: str, messages: list) -> _Arrived:
        tables = [self.spec.side_table(side, table_of(m.rows)) for m in messages]
        table = self.spec.whole(side, tables)
        every = kept = admit(frontier, side, table)
        share = [t for t, m in zip(tables, messages, strict=True) if m.kept]
        if len(share) < len(tables):
            kept = admit(frontier, side, self.spec.whole(side, share))
        return _Arrived(every, kept, table.num_rows)

    def _taken_in(self, frontier: Frontier, before: Commit, arrived: dict[str, _Arrived]) -> Commit:
        """Remove rows that no later row can meet, and store the new ones."""
        old = needed_files(frontier, before)
        staying = {file.name for own in old.values() for file in own}
        for file in before.kept():
            if file.name not in staying:
                self._rows.remove(file)
        after = dict(before.after)
        for side, one in arrived.items():
            if one.every.loaded.rows.time.size or len(one.every.late):
                after[side] = max(after[side], one.every.latest - self.spec.disorder[side])
        new: dict[str, list[StoredFile]] = {LEFT: [], RIGHT: []}
        following = Frontier(frontier.query, after)
        for side, one in arrived.items():
            loaded = _staying(following, side, one.kept.loaded)
            if len(loaded.rows):
                new[side].append(write(self._rows, before.batch + 1, frontier, side, loaded))
        commit = before.following(
            {side: one.rows for side, one in arrived.items()},
            {side: len(one.every.late) for side, one in arrived.items()},
            after=after,
            old=old,
            new=new,
        )
        return self._merged(frontier, commit)

    def _merged(self, frontier: Frontier, commit: Commit) -> Commit:
        """The commit, with fewer entries if there are many."""
        merges = choose_merges(frontier, commit)
        done = [(merge, merge_files(self.spec, self._rows, commit, merge)) for merge in merges]
        for merge, _ in done:
            for file in merge.files:
                self._rows.remove(file)
        return replace(commit, old=replace_merged(commit.old, done))


def _staying(frontier: Frontier, side: str, loaded: Loaded) -> Loaded:
    """Leave out new rows that no later step can read, if they are the majority.

    If they are few, all rows stay: this step prepares them anyway, as one block.
    """
    if frontier.grouping is not None or frontier.query.is_rows:
        return loaded
    nothing: dict[str, list[Block]] = {LEFT: [], RIGHT: []}  # blocks count for groups only
    staying = loaded.between(oldest(frontier, nothing, side), FOREVER)
    return staying if 2 * len(staying.rows) <= len(loaded.rows) else loaded
