"""Other ways to bring bytes to another process, each as its documentation has it for throughput.

Where a call for a view exists instead of a copy, it is used. Each keeps up to :attr:`Job.slots`
messages in flight where that can be said.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

from bench.channel.far import Far
from bench.channel.work import PATIENCE_S, Done, Job, Source, Toucher
from penstock.errors import MissingToolError, ProcessError


def needs(package: str) -> None:
    """Check that a peer is installed.

    Raises
    ------
    MissingToolError
    """
    if importlib.util.find_spec(package) is None:
        raise MissingToolError(f"{package} is not installed: pip install 'penstock[bench]'")


class Pipe:
    """``multiprocessing``'s connection, on a Unix socket: ``send_bytes``, ``recv_bytes_into``."""

    name, package = "multiprocessing.Pipe", "multiprocessing"
    module, consume = __name__, "consume_pipe"

    def __call__(self, far: Far, job: Job, source: Source) -> float:
        with Client(far.tell(), "AF_UNIX") as connection:
            began = time.perf_counter()
            for message in source.messages(job):
                connection.send_bytes(message)
            connection.recv_bytes()
        return began


def consume_pipe(link: Connection, job: Job) -> Done:
    """Receive into one buffer again and again."""
    buffer, toucher = bytearray(job.message_bytes), Toucher(job)
    with Listener(family="AF_UNIX") as listener:
        link.send(listener.address)
        with listener.accept() as connection:
            while toucher.left:
                connection.recv_bytes_into(buffer)
                toucher.take(buffer)
            connection.send_bytes(b"")
    return toucher.done()


class Zmq:
    """ZeroMQ over ipc, PUSH to PULL, frames without copies."""

    name, package = "ZeroMQ ipc", "zmq"
    module, consume = __name__, "consume_zmq"

    def __call__(self, far: Far, job: Job, source: Source) -> float:
        import zmq

        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.set_hwm(job.slots)
            socket.setsockopt(zmq.SNDTIMEO, int(PATIENCE_S * 1e3))
            socket.connect(far.tell())
            began = time.perf_counter()
            for message in source.messages(job):
                socket.send(message, copy=False)
        return began


def consume_zmq(link: Connection, job: Job) -> Done:
    """Pull frames."""
    import zmq

    toucher = Toucher(job)
    with (
        tempfile.TemporaryDirectory() as folder,
        zmq.Context() as context,
        context.socket(zmq.PULL) as socket,
    ):
        socket.set_hwm(job.slots)
        socket.setsockopt(zmq.RCVTIMEO, int(PATIENCE_S * 1e3))
        address = f"ipc://{folder}/socket"
        socket.bind(address)
        link.send(address)
        while toucher.left:
            toucher.take(socket.recv(copy=False).buffer)
    return toucher.done()


_TCP = "grpc+tcp://127.0.0.1"
_SCHEMA = pa.schema([("payload", pa.uint8())])


class Flight:
    """Arrow Flight over a Unix socket: DoPut of batches of one column of bytes."""

    name, package = "Arrow Flight", "pyarrow.flight"
    module, consume = __name__, "consume_flight"

    def __call__(self, far: Far, job: Job, source: Source) -> float:
        with flight.connect(far.tell()) as client:
            writer, _ = client.do_put(flight.FlightDescriptor.for_path("bench"), _SCHEMA)
            began = time.perf_counter()
            with writer:
                for message in source.messages(job):
                    column = pa.Array.from_buffers(
                        pa.uint8(), len(message), [None, pa.py_buffer(message)]
                    )
                    writer.write_batch(pa.record_batch([column], schema=_SCHEMA))
        return began


class FlightTcp(Flight):
    """Arrow Flight over TCP on the loopback."""

    name = "Arrow Flight over TCP"
    consume = "consume_flight_tcp"


class _Server(flight.FlightServerBase):
    """Touches what is put, and stops when it has come."""

    def __init__(self, location: str, toucher: Toucher) -> None:
        super().__init__(location)
        self._toucher = toucher

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        for chunk in reader:
            self._toucher.take(chunk.data.column(0).buffers()[1])


def consume_flight(link: Connection, job: Job) -> Done:
    """Serve until one transfer has come."""
    with tempfile.TemporaryDirectory() as folder:
        return _serve(link, job, f"grpc+unix://{folder}/socket")


def consume_flight_tcp(link: Connection, job: Job) -> Done:
    """Serve until one transfer has come, over TCP."""
    return _serve(link, job, f"{_TCP}:0")


def _serve(link: Connection, job: Job, location: str) -> Done:
    toucher = Toucher(job)
    server = _Server(location, toucher)
    link.send(f"{_TCP}:{server.port}" if location.startswith(_TCP) else location)
    toucher.wait(PATIENCE_S)
    server.shutdown()
    return toucher.done()


class Iceoryx:
    """iceoryx2: loans of shared memory, safe overflow off, the publisher waits."""

    name, package = "iceoryx2", "iceoryx2"
    module, consume = __name__, "consume_iceoryx"

    def __call__(self, far: Far, job: Job, source: Source) -> float:
        import iceoryx2 as iox2

        node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
        service = _service(node, far.tell(), job)
        publisher = (
            service.publisher_builder()
            .initial_max_slice_len(job.message_bytes)
            .backpressure_strategy(iox2.BackpressureStrategy.RetryUntilDelivered)
            .create()
        )
        far.link.send("publishes")
        if far.tell() != "ready":
            raise AssertionError("the subscriber is not ready")
        publisher.update_connections()
        first = source.memory.ctypes.data
        size, copy, loan = job.message_bytes, ctypes.memmove, publisher.loan_slice_uninit
        starts = source.starts(job)
        began = time.perf_counter()
        for start in starts:
            sample = loan(size)
            copy(sample.payload_ptr, first + start, size)
            sample.assume_init().send()
        far.link.send("sent")
        far.tell()
        return began


def _service(node: Any, name: str, job: Job) -> Any:
    import iceoryx2 as iox2

    return (
        node.service_builder(iox2.ServiceName.new(name))
        .publish_subscribe(iox2.Slice[ctypes.c_uint8])
        .enable_safe_overflow(False)
        .subscriber_max_buffer_size(job.slots)
        .subscriber_max_borrowed_samples(1)
        .history_size(0)
        .open_or_create()
    )


def consume_iceoryx(link: Connection, job: Job) -> Done:
    """Take samples; polls, as the library has no wait for samples alone."""
    import iceoryx2 as iox2

    name = f"penstock/bench/{os.getpid()}/{np.random.default_rng().integers(1 << 40)}"
    node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
    service = _service(node, name, job)
    subscriber = service.subscriber_builder().buffer_size(job.slots).create()
    link.send(name)
    link.recv()
    link.send("ready")
    toucher, receive, size = Toucher(job), subscriber.receive, job.message_bytes
    view = ctypes.c_uint8 * size
    deadline = time.monotonic() + PATIENCE_S
    while toucher.left:
        sample = receive()
        if sample is None:
            if time.monotonic() > deadline:
                raise ProcessError("iceoryx2's subscriber has not received all samples")
            continue
        toucher.take(view.from_address(sample.payload_ptr))
        sample.delete()
    link.recv()
    link.send("received")
    return toucher.done()


_PEERS = (Iceoryx, Zmq, Pipe, Flight, FlightTcp)
#: Every peer, by its name.
PEERS: dict[str, Callable[[], Any]] = {peer.name: peer for peer in _PEERS}
