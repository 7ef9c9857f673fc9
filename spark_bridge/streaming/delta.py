"""A Delta table as the output of a streaming join: each micro-batch is one transaction, once.

Tasks write the data files, the driver commits them through delta-rs, together with the number of
the query and of the micro-batch. A table that says that it has the batch gets nothing again.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as fs
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from penstock.errors import DataError, FileError, MissingToolError, UsageError, installing
from penstock.host.store.atomic import flush
from penstock.host.store.location import Location
from penstock.host.store.own_names import OwnNames

from ..inputs import identifier
from ..shown import task_of
from ..sources.source_options import Options
from ..text_values import flag, whole
from .data_files import DataFile, DataFiles, is_folder, table_files
from .delta_columns import arrow_of, check_partitions, require_fitting
from .room import room_for
from .store import AGAIN

if TYPE_CHECKING:
    from deltalake import DeltaTable, PostCommitHookProperties

_log = logging.getLogger("penstock.delta")

#: Name of the format.
NAME = "delta"

#: Begin of options of an object store, which go to delta-rs without it.
STORAGE = "storage."

#: Micro-batches after which small files are merged and the log is shortened.
COMPACT_EVERY = 100

#: How often a commit is tried when others change the table meanwhile. Appends do not conflict; what
#: does (a changed schema, a second driver of this query) is seen in the next try.
_TRIES = 5

_LOG = "_delta_log"
#: delta-rs removes files whose names end so, below the log's folder, when it shortens the log. It
#: also does that after a compaction. Names of the log's own files have this begin, too.
_LOG_END = re.compile(r"\d{20}\.(?:json|checkpoint(?:\..*)?\.parquet)$", re.ASCII)
_LOG_BEGIN = re.compile(r"\d{20}\.", re.ASCII)
#: Names of the data files that Penstock, and Delta's compaction for it, write.
_DATA_FILES = OwnNames(r"(?:[^/]+=[^/]*/)*part-(?:[0-9]{5}-)?[0-9a-f-]{32,36}[^/]*\.parquet")


@dataclass(frozen=True)
class DeltaSink:
    """Sink that commits each micro-batch to a Delta table once.

    Parameters
    ----------
    location : str
        Of the table: an absolute folder, or an address that delta-rs knows.
    by : tuple of str
        Partition columns; empty for the table's own.
    storage : dict
        Options of the object store.
    every : int
        Micro-batches between two compactions; 0 for none.
    vacuum : bool
        Whether to remove, at each compaction, files that the table has not had for longer than its
        retention.
    query : str
        Number of the query.
    """

    location: str
    by: tuple[str, ...] = ()
    storage: dict[str, str] = field(default_factory=dict)
    every: int = COMPACT_EVERY
    vacuum: bool = False
    query: str = ""

    @staticmethod
    def from_options(path: str, by: Sequence[str], options: dict[str, str]) -> DeltaSink:
        """The sink of a writer's options.

        Raises
        ------
        UsageError
        MissingToolError
        """
        _delta_lake()
        storage = {k.removeprefix(STORAGE): v for k, v in options.items() if k.startswith(STORAGE)}
        settings = {k: v for k, v in options.items() if not k.startswith(STORAGE)}
        if unknown := settings.keys() - {"compactEvery", "vacuum"}:
            raise UsageError(
                f"format delta has no option {min(unknown)}; it has compactEvery, vacuum, and "
                f"{STORAGE}<key> for an object store"
            )
        chosen = Options(settings, "format delta")
        every = chosen.read("compactEvery", whole(), COMPACT_EVERY)
        vacuum = chosen.read("vacuum", flag, False)
        place = Location.parse(path)
        if place.path is not None:
            path = str(place.path.absolute())
        return DeltaSink(path, tuple(by), storage, every, vacuum)

    def open(self, schema: StructType) -> None:
        """Make the table, or check that the rows fit into the one that is there.

        Raises
        ------
        UsageError
            They do not, or the folder has files of something else.
        SchemaError
            Delta has no type for a column.
        FileError
        """
        from deltalake import DeltaTable

        arrow = arrow_of(schema)
        with self._explained("read"):
            is_new = not DeltaTable.is_deltatable(self.location, self.storage)
        if is_new:
            check_partitions(self.by, arrow)
            self._check_empty()
            with self._explained("write"):
                DeltaTable.create(
                    self.location,
                    arrow,
                    mode="ignore",
                    partition_by=list(self.by),
                    storage_options=self.storage,
                )
                self._flush_from(0)
        self._open_for(arrow)

    def __call__(self, rows: DataFrame, batch: int) -> None:
        schema = arrow_of(rows.schema)
        table = self._open_for(schema)
        done = table.transaction_version(self.query)
        if self._is_done(done, batch):
            return
        by = tuple(table.metadata().partition_columns)
        writer = DataFiles(self.location, self.storage, schema, by)
        if by:
            rows = rows.sortWithinPartitions(*map(identifier, by))
        with room_for(self.location):
            task = task_of("files of a Delta table", writer.run)
            written = rows.mapInArrow(task, "text string").collect()
        if not written:
            return  # when it is repeated, it has no rows either
        self._commit([writer.read(row["text"]) for row in written], schema, batch)
        if self.every and batch // self.every > max(done or 0, 0) // self.every:
            self._tidy()

    def _is_done(self, done: int | None, batch: int) -> bool:
        """Whether the table has a batch.

        Raises
        ------
        DataError
            It has a later one.
        """
        if done is not None and done > batch:
            raise DataError(
                f"batch {batch} comes after batch {done} of the same query in {self.location}: the "
                "query runs twice, or on an old copy of its checkpoint; restore the table, too, "
                "to the version of that time, or choose another path"
            )
        return done == batch

    def _commit(self, files: Sequence[DataFile], schema: pa.Schema, batch: int) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction, RemoveAction

        now = int(time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(f.name, f.bytes, f.values, now, True, f.stats) for f in files
        ]
        noted = CommitProperties(app_transactions=[Transaction(self.query, batch)])
        refused = ""
        for _ in range(_TRIES):
            table = self._open_for(schema)
            # A commit that failed may have been made, and another driver of the query may have.
            if self._is_done(table.transaction_version(self.query), batch):
                return
            by = table.metadata().partition_columns
            try:
                with self._explained("write"):
                    # Against this version: a second commit of the same query is a conflict.
                    table.create_write_transaction(
                        actions,
                        "append",
                        table.schema(),
                        by,
                        commit_properties=noted,
                        post_commithook_properties=_log_stays(),
                    )
                    self._flush_from(table.version() + 1)
            except CommitFailedError as error:
                refused = _first_line(error)
                continue
            return
        raise FileError(
            f"{_TRIES} commits of batch {batch} to {self.location} met changes of others "
            f"({refused}); {AGAIN}"
        )

    def _tidy(self) -> None:
        """Merge small files, shorten the log; the rows stay what they are."""
        from deltalake.exceptions import CommitFailedError

        table = self._table()
        before = table.version()
        try:
            with self._explained("write"):
                is_shared = self._has_foreign_log()
                if not is_shared:
                    table.optimize.compact()
                table.create_checkpoint()
                if not is_shared:
                    table.cleanup_metadata()
                self._flush_from(before + 1)
                if self.vacuum:
                    self._remove_unneeded(table)
        except CommitFailedError:
            return  # others have rewritten the files

    def _remove_unneeded(self, table: DeltaTable) -> None:
        """Remove files of the table's earlier versions, and data files of failed attempts.

        Delta's full vacuum would remove any other file in the folder, too.
        """
        left = [name for name in table.vacuum(dry_run=True, full=True) if name in _DATA_FILES]
        table.vacuum(dry_run=False, post_commithook_properties=_log_stays())
        files = self._files()
        for name in left:
            with suppress(FileNotFoundError):  # the table had it
                files.delete_file(name)

    def _has_foreign_log(self) -> bool:
        """Whether files lie in the log that delta-rs would remove together with old log entries."""
        for file in self._files().get_file_info(fs.FileSelector(_LOG, recursive=True)):
            name = file.path.partition(f"{_LOG}/")[2]
            if _LOG_END.search(name) and not _LOG_BEGIN.match(name):
                _log.warning(
                    "%s/%s/%s has a name like files of the log, and would be removed with them: so "
                    "small files are not merged and the log is not shortened; move it elsewhere",
                    self.location, _LOG, name,
                )  # fmt: skip
                return True
        return False

    def _files(self) -> fs.FileSystem:
        """All that lies in the table's folder."""
        return table_files(self.location, self.storage)

    # -- the table --------------------------------------------------------------------------------

    def _table(self) -> DeltaTable:
        from deltalake import DeltaTable

        with self._explained("read"):
            return DeltaTable(self.location, storage_options=self.storage)

    def _open_for(self, schema: pa.Schema) -> DeltaTable:
        """The newest version of the table, if rows of a schema fit into it.

        Raises
        ------
        UsageError
        """
        table = self._table()
        require_fitting(table, schema, self.by, self.location)
        return table

    def _check_empty(self) -> None:
        folder = Path(self.location)
        if is_folder(self.location) and folder.is_dir():
            names = sorted(p.name for p in folder.iterdir() if p.name != _LOG)
            if names:
                raise UsageError(
                    f"{folder} is no Delta table, and has {names[0]}; choose another path, or "
                    "remove the folder"
                )

    def _flush_from(self, version: int) -> None:
        """Make versions of a table in a folder survive a crash of the machine.

        delta-rs does not, and Spark never sends a batch again that it counts as done.
        """
        if not is_folder(self.location):
            return
        log = Path(self.location, _LOG)
        while (record := log / f"{version:020}.json").exists():
            for line in record.read_text(encoding="utf-8").splitlines():
                added = json.loads(line).get("add")
                if added is not None:
                    self._flush(Path(self.location, unquote(added["path"])))
            self._flush(record)
            self._flush(log / f"{version:020}.checkpoint.parquet")
            version += 1
        self._flush(log / "_last_checkpoint")

    def _flush(self, path: Path) -> None:
        if path.exists():  # others may remove what they have merged
            flush(path)
            flush(path.parent)

    @contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        from deltalake.exceptions import CommitFailedError, DeltaError

        try:
            yield
        except CommitFailedError:
            raise
        except (DeltaError, OSError) as error:
            raise FileError(
                f"cannot {action} the Delta table {self.location}: {_first_line(error)}; see that "
                f"the driver and all workers can write there, and {AGAIN}"
            ) from error


def _log_stays() -> PostCommitHookProperties:
    """Keep delta-rs from shortening the log after a commit, but not a compaction."""
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def _delta_lake() -> None:
    """Refuse to go on without delta-rs.

    Raises
    ------
    MissingToolError
    """
    try:
        import deltalake  # noqa: F401
    except ImportError as error:
        raise MissingToolError(
            f"format delta needs the package deltalake: {installing('delta')}"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
