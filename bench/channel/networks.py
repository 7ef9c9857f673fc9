"""The channel through UCX in the benchmark, and one stream of TCP beside it."""

from __future__ import annotations

import socket
import time
from multiprocessing.connection import Connection
from typing import Any

from bench.channel.far import Far
from bench.channel.work import PATIENCE_S, Done, Job, Source, Toucher
from penstock.errors import ProcessError
from penstock.host.channel import FOOTER_BYTES, Consumer, Doorbell, MessageKind
from penstock.host.channel.ucx import Network, UcxLink
from penstock.host.channel.ucx.network import SHARED_MEMORY

#: What carries each form of the channel, by its name.
ON_SHM, ON_TCP = "penstock, ucx on shm", "penstock, ucx on TCP"
TRANSPORTS = {ON_SHM: SHARED_MEMORY, ON_TCP: "tcp,self"}


class Near:
    """The near side of the channel through UCX.

    Parameters
    ----------
    name : str
        One of :data:`TRANSPORTS`.
    """

    module, consume = __name__, "consume"

    def __init__(self, name: str) -> None:
        self.name = self._transport = name
        self.bell = Doorbell.create()
        self._network = Network(self.bell, transports=TRANSPORTS[name])
        self.sent_ns: list[int] = []

    def __call__(self, far: Far, job: Job, source: Source) -> float:
        link, producer = self._connect(far, job)
        began = time.perf_counter()
        for message in source.runs(job):
            if not producer.send(MessageKind.ROWS, message):
                self._wait(producer.pump)
        return self._finish(far, link, began)

    def one_by_one(self, far: Far, job: Job, source: Source) -> float:
        """Send each message by itself, and keep when it was begun."""
        link, producer = self._connect(far, job)
        times, clock = [], time.perf_counter_ns
        for message in source.messages(job):
            times.append(clock())
            if not producer.send(MessageKind.ROWS, message):
                self._wait(producer.pump)
        self.sent_ns = times
        return self._finish(far, link, times[0] / 1e9)

    def _connect(self, far: Far, job: Job) -> tuple[UcxLink, Any]:
        size = job.message_bytes + FOOTER_BYTES
        link = UcxLink(self._network, self.bell, "the consumer", slots=1, slot_bytes=size)
        far.link.send((self._transport, link.offer()))
        producer, consumer = link.connect(far.tell())
        # The first message makes the connection.
        producer.send(MessageKind.HELLO)
        self._wait(lambda: consumer.has_arrived)
        return link, producer

    def _finish(self, far: Far, link: UcxLink, began: float) -> float:
        # What is sent goes on only while this side looks at it.
        if not self.bell.wait(lambda: far.link.poll(), PATIENCE_S, spin_s=PATIENCE_S):
            raise ProcessError("the consumer of a benchmark does nothing")
        link.close()
        return began

    def _wait(self, ready: Any) -> None:
        if not self.bell.wait(ready, PATIENCE_S):
            raise ProcessError("the consumer of a benchmark does nothing")


_networks: dict[str, tuple[Doorbell, Network]] = {}


def accept(link: Connection, job: Job) -> tuple[Doorbell, UcxLink, Consumer]:
    """The far side's ends, when the first message has come and gone."""
    name, offer = link.recv()
    if name not in _networks:
        bell = Doorbell.create()
        _networks[name] = bell, Network(bell, transports=TRANSPORTS[name])
    bell, network = _networks[name]
    size = job.message_bytes + FOOTER_BYTES
    ends = UcxLink(network, bell, "the producer", slots=job.slots, slot_bytes=size)
    link.send(ends.offer())
    producer, consumer = ends.connect(offer)
    if not bell.wait(lambda: consumer.has_arrived, PATIENCE_S):
        raise ProcessError("the producer of a benchmark does nothing")
    hello = consumer.receive()
    assert hello is not None
    consumer.done(hello)
    producer.send(MessageKind.HELLO)
    return bell, ends, consumer


def consume(link: Connection, job: Job) -> Done:
    """Take all messages of a transfer."""
    bell, ends, consumer = accept(link, job)
    toucher = Toucher(job)
    while toucher.left:
        message = consumer.receive()
        if message is None:
            if not bell.wait(lambda: consumer.has_arrived, PATIENCE_S):
                raise ProcessError("the producer of a benchmark does nothing")
            continue
        toucher.take(message.payload)
        consumer.done(message)
        message = None  # so that its memory can be taken for the next one
    ends.flush(PATIENCE_S)
    ends.close()
    return toucher.done()


class Stream:
    """One stream of TCP on the loopback, as ``iperf`` has it: sends and receives of a message."""

    name = "one TCP stream"
    module, consume = __name__, "consume_stream"

    def __call__(self, far: Far, job: Job, source: Source) -> float:
        with socket.create_connection(far.tell(), PATIENCE_S) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            began = time.perf_counter()
            for message in source.messages(job):
                line.sendall(message)
            line.recv(1)
        return began


def consume_stream(link: Connection, job: Job) -> Done:
    """Receive into one buffer again and again."""
    buffer, toucher = memoryview(bytearray(job.message_bytes)), Toucher(job)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        link.send(server.getsockname())
        line, _ = server.accept()
        with line:
            while toucher.left:
                line.recv_into(buffer, 0, socket.MSG_WAITALL)
                toucher.take(buffer)
            line.send(b"x")
    return toucher.done()
