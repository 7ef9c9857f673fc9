"""Start of a worker, wherever it runs."""

from __future__ import annotations

import pyarrow as pa

from .counts import EpochState
from .job import WorkerStart
from .points import reached
from .protocol.worker import Worker
from .records.part_files import read_part
from .work import Work


def started_worker(work: Work, start: WorkerStart) -> tuple[Worker, EpochState]:
    """Make a worker and its state, and load its share of the record.

    What the first rows would wait for is compiled before.

    Raises
    ------
    FileError
        A part of the record is missing or damaged.
    """
    job = start.job
    state = work.state(start.rank)
    worker = Worker(
        start.rank,
        job.size,
        state,
        work.limit,
        incarnation=start.incarnation,
        number=start.number,
        recorded=start.promises,
        saves=job.folder is not None,
        shares_steps=work.shares_steps,
    )
    _warm(work)
    if job.folder is not None:
        for part in start.states:
            reached("restore")
            worker.load(read_part(job.folder, part), start.size_then)
    return worker, state


def _warm(work: Work) -> None:
    """Compile the loops that the first rows would wait for, on a state that is thrown away."""
    state = work.state(0)
    for source, schema in enumerate(work.dealt_schemas):
        arrays = [pa.array([], field.type) for field in schema]
        state.fold(pa.RecordBatch.from_arrays(arrays, schema=schema), source)
    for block in (block for blocks in state.seal() for block in blocks):
        state.merge(0, block)
