"""A worker process, as :mod:`.spawning` starts it."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.errors import PenstockError, ProcessError

from ...channel import Consumer, Message, MessageKind, ProcessGoneError, Producer
from ...wire.errors import error_header
from ..compiling import compiled
from ..dealt import packed, unpacked
from ..job import WorkerStart
from ..members import Workers, as_bytes, require_equal
from ..points import arm
from ..protocol import messages
from ..protocol.coding import decode, encode
from ..starting import started_worker
from ..upstream import Upstream, WorkerStatus, status_header
from ..worker_loop import WorkerLoop
from ..writing import PartWriter
from .line import Line
from .spawning import end_with_parent
from .wiring import child_ends

#: Seconds that another process may take to begin: imports and compilers are slow on busy machines.
START_S = 120.0
#: Seconds that a part may take to be written when the stream ends.
_LAST_PART_S = 600.0


#: Options of glibc's ``mallopt``.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
#: Bytes free at the end of the heap that are kept, the most that the option takes.
_KEPT_BYTES = (1 << 31) - 1
#: Bytes by which the heap grows at least; those never used cost nothing.
_GROWTH_BYTES = 64 << 20


class ParentLink(Upstream):
    """Channels from and to the parent.

    Parameters
    ----------
    consumer, producer : Consumer, Producer
    schemas : sequence of pyarrow.Schema
        Of dealt rows, by source.
    """

    def __init__(
        self, consumer: Consumer, producer: Producer, schemas: Sequence[pa.Schema]
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._schemas = schemas
        self._open: Message | None = None

    @property
    def has_arrived(self) -> bool:
        return self._consumer.has_arrived

    def take(self) -> messages.Message | None:
        received = self._consumer.receive()
        if received is None:
            return None
        self._open = received
        if received.kind is MessageKind.CLOSE:
            self.closed = True
            self.done()
            return None
        message = decode(received.kind.name, received.payload)
        if isinstance(message, messages.DealtRows):
            schema = self._schemas[message.feed % len(self._schemas)]
            return replace(message, body=unpacked(message.body, schema))
        return message

    def done(self) -> None:
        assert self._open is not None
        self._consumer.done(self._open)
        self._open = None

    @property
    def may_give(self) -> bool:
        return not self._producer.pending

    def give(self, message: messages.OutputRows | messages.PartWritten | WorkerStatus) -> None:
        if isinstance(message, WorkerStatus):
            self._producer.send(MessageKind.HELLO, json.dumps(status_header(message)).encode())
            return
        if isinstance(message, messages.OutputRows):
            message = replace(message, body=packed(message.body))
        self._producer.send(MessageKind[message.kind], encode(message))

    def pump(self) -> bool:
        if not self._producer.pending or not self._producer.credits:
            return False
        self._producer.pump()
        return True


def keep_memory() -> None:
    """Let the C library reuse freed arrays of any size, where it can.

    The process then keeps as much memory as it once needed, up to 2 GiB free at the heap's end.

    Each window that closes gives its groups in new arrays, which are freed when they have been
    sent. The allocator would map large ones anew each time, and the system would clear each page
    again, which takes longer than to fill it: a fifth of the CPU time of two workers that group
    10 M keys.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return
    # Arrow's own allocator gives pages back soon.
    pa.set_memory_pool(pa.system_memory_pool())
    options = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _KEPT_BYTES), (_TOP_PAD, _GROWTH_BYTES))
    for option, value in options:
        mallopt(option, value)


class LocalWorkers(Workers):
    """Workers that a stream on this machine has started, and which exchange bytes through it.

    Parameters
    ----------
    line : Line
        Connection to the stream.
    """

    def __init__(self, rank: int, size: int, line: Line) -> None:
        super().__init__(rank, size)
        self._line = line

    def exchange(self, mine: bytes) -> list[bytes]:
        self._line.send(("exchange", mine), START_S)
        return self._line.receive(START_S)[0]


def run(start: WorkerStart, files: Sequence[int], line: Line, parent: int) -> None:
    """Work for a stream until it closes."""
    job, rank = start.job, start.rank
    ends = child_ends(rank, job.size, files[: len(files) - (job.folder is not None)])
    workers = LocalWorkers(rank, job.size, line)
    work = compiled(job)
    require_equal(workers.exchange(as_bytes(job.facts(work.fingerprint))))
    work.share(ends.board, job.size)
    os.close(ends.board)
    worker, state = started_worker(work, start)
    writer = None if job.folder is None else PartWriter(job.folder, ends.ringer.ring)
    watched = os.pidfd_open(parent)
    ends.bell.watch(watched, "the stream")
    line.send(("ready", None), START_S)
    upstream = ParentLink(ends.consumer, ends.producer, work.dealt_schemas)
    runner = WorkerLoop(job, worker, state, ends.peers, upstream, ends.bell, start.number, writer)
    runner.run()
    if writer is not None:
        writer.close(_LAST_PART_S)


def main(arguments: Sequence[str]) -> int:
    """Run a worker; returns the exit status."""
    number, parent = map(int, arguments)
    end_with_parent(parent)
    keep_memory()
    line = Line(socket.socket(fileno=number), "the stream")
    try:
        start, files = line.receive(START_S)
        arm(str(start.rank))
        run(start, files, line, parent)
    except ProcessGoneError:
        return 1  # nobody is there to be told
    except BaseException as error:  # the stream is told, whatever it is
        if not isinstance(error, PenstockError):
            traceback.print_exc()
            error = ProcessError(f"a worker failed: {type(error).__name__}: {error}")
        line.send(("failed", error_header(error)), START_S)
        return 1
    return 0


def start() -> None:
    """Run this process as the worker that its arguments SOCKET and PARENT name."""
    # The collector was off while modules were imported. They stay, so it never looks at them:
    # that takes 0.1 s.
    gc.freeze()
    gc.enable()
    # Nothing is left to be done, and the interpreter takes long to take itself apart.
    os._exit(main(sys.argv[1:]))
