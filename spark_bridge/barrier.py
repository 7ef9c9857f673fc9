"""Runs a worker of a stream in each task of a barrier stage; the tasks exchange messages there."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError, ProcessError
from penstock.host.wire.errors import error_header
from penstock.host.workers.members import Workers

from .threads import in_thread

#: Seconds that another worker may take to make the same call: compilers are slow on busy machines.
PATIENCE_S = 300.0
#: Row that each task gives: its rank, the result of ``main`` or its error, and the time.
SCHEMA = pa.schema(
    [("rank", pa.int32()), ("result", pa.binary()), ("error", pa.string()), ("at", pa.float64())]
)
#: How messages of a round begin: more follows, ``main`` has returned, or it has failed.
_GOES_ON, _DONE, _FAILED = "x", "d", "f"


class SparkWorkers(Workers):
    """This task as a worker of a stream.

    Parameters
    ----------
    context : pyspark.BarrierTaskContext
    """

    def __init__(self, context: Any) -> None:
        super().__init__(context.partitionId(), len(context.getTaskInfos()))
        self._context = context

    def exchange(self, mine: bytes) -> list[bytes]:
        texts = self._round(_GOES_ON + mine.hex(), PATIENCE_S)
        for rank, text in enumerate(texts):
            if text[0] == _FAILED:
                raise ProcessError(f"worker {rank} has failed: {text[1:]}")
            if text[0] == _DONE:
                raise ProcessError(
                    f"worker {rank} has returned from main, and opens no further stream; all "
                    "workers open the same streams, one after the other"
                )
        return [bytes.fromhex(text[1:]) for text in texts]

    def leave(self, error: str | None) -> None:
        """Wait until all workers have returned or failed; one that opens a stream gets an error.

        Parameters
        ----------
        error : str or None
            How this one has failed.
        """
        outcome = _DONE if error is None else _FAILED + error
        while any(text[0] == _GOES_ON for text in self._round(outcome, None)):
            pass

    def _round(self, text: str, timeout_s: float | None) -> list[str]:
        """Send a text to all workers, and return the texts of all by rank.

        Raises
        ------
        ProcessError
            They did not all call it in time.
        """
        if timeout_s is None:
            return self._context.allGather(text)
        # Spark's own wait ends after a year.
        answers = in_thread("penstock-barrier", lambda: self._context.allGather(text))
        if not wait([answers], timeout_s).done:
            raise ProcessError(
                f"not all {self.size} workers have come as far within {timeout_s:g} s; each has "
                "to open the same streams with the same arguments"
            )
        if (error := answers.exception()) is not None:
            raise ProcessError(f"the workers have lost each other: {error}") from error
        return answers.result()


def run_worker(main: Callable[[Workers], Any]) -> Iterator[pa.RecordBatch]:
    """Run ``main`` in this task; give its result, or how it has failed, as a batch."""
    from pyspark import BarrierTaskContext, cloudpickle

    context = BarrierTaskContext.get()
    workers = SparkWorkers(context)
    result, failed = None, None
    try:
        result = cloudpickle.dumps(main(workers))
    except (Exception, SystemExit) as error:  # a process that ended would be tried again
        failed = _described(error)
    at = time.time()
    workers.leave(None if failed is None else failed["message"])
    text = None if failed is None else json.dumps(failed)
    columns = [[workers.rank], [result], [text], [at]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _described(error: BaseException) -> dict[str, Any]:
    """Return an error as the header of a message to the caller."""
    if isinstance(error, PenstockError):
        return error_header(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{last.filename}:{last.lineno}"
    return {
        "kind": "ProcessError",
        "message": f"{type(error).__name__}: {error} (at {where})",
        "trace": "".join(traceback.format_exception(error)),
    }
