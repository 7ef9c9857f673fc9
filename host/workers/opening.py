"""Opening of a stream on workers, before any process is started."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import UsageError
from penstock.query.options import QueryOptions

from ..channel import Doorbell, spin_seconds
from ..execute.budget import SPARE
from ..execute.trace import Trace
from ..join.lookup.relation_source import RelationTable
from ..join.stream.flow import Flow
from .checkpoint import Checkpoint
from .commits import RecordWriter
from .compiling import compiled
from .driver import Driver
from .driving import StreamDriver
from .job import Job
from .members import schema_text
from .points import arm
from .records.folder import CheckpointFolder
from .work import Work
from .worker_loop import EPOCH_BYTES


@dataclass(frozen=True)
class Opened:
    """Components of an opened stream, whose workers have not been started.

    Parameters
    ----------
    work : Work
    flow : Flow
    checkpoint : Checkpoint or None
    now : bool
        Whether rows leave before the checkpoint that covers them.
    bell : Doorbell
    driver : StreamDriver
        Processes are its to end.
    owned : ExitStack
        Closes the other components: links before the bell that watches their processes.
    """

    work: Work
    flow: Flow
    checkpoint: Checkpoint | None
    now: bool
    bell: Doorbell
    driver: StreamDriver
    owned: ExitStack

    def close(self) -> None:
        self.owned.close()


def open_processes(job: Job, flow: Flow, checkpoint: Checkpoint | None, now: bool) -> Opened:
    """Open a stream whose workers are processes of this machine.

    Raises
    ------
    QueryError
        Groups would never be complete.
    FileError
        The checkpoint is another query's, damaged, or cannot be written.
    """
    work = compiled(job)
    work.close()  # only workers read a relation
    arm("parent")
    with ExitStack() as owned:
        records = records_of(job, work, owned)
        bell = Doorbell.create(spin_seconds(job.size))
        owned.callback(bell.close)
        driver = Driver(
            job,
            job.facts(work.fingerprint),
            work.hidden,
            records,
            now=now,
            lease_s=flow.running.timeout_s,
            bell=bell,
            trace=Trace(job.traces),
        )
        return Opened(work, flow, checkpoint, now, bell, driver, owned.pop_all())


def records_of(job: Job, work: Work, owned: ExitStack) -> RecordWriter | None:
    """Lock the folder of checkpoints until ``owned`` is closed; None if the job has none.

    Raises
    ------
    FileError
        It cannot be written, or another stream uses it.
    """
    if job.folder is None:
        return None
    folder = CheckpointFolder(job.folder)
    owned.callback(folder.close)
    return RecordWriter(folder, job.text, work.fingerprint, schema_text(*work.dealt_schemas))


def job_of(
    text: str,
    schemas: Mapping[str, pa.Schema],
    options: QueryOptions,
    size: int,
    flow: Flow,
    checkpoint: Checkpoint | None,
    now: bool,
    trace: bool,
    relation: tuple[str, RelationTable] | None,
    device: str,
) -> Job:
    """Return the job of each worker.

    Raises
    ------
    UsageError
        Rows are to be ordered and to leave at once.
    """
    ordered = flow.running.ordered
    if ordered and now:
        raise UsageError(
            "release='now' gives rows as workers complete them, in no order; leave ordered out, "
            "or let rows leave by commits"
        )
    folder = None if checkpoint is None else checkpoint.folder.absolute()
    return Job(
        text, schemas, options, size, ordered, flow.latency_s, EPOCH_BYTES, folder, trace,
        relation=relation,
        device=device,
        spare_bytes=None if flow.memory_bytes is None else int(SPARE * flow.memory_bytes / size),
    )  # fmt: skip
