"""Penstock's channel in the benchmark."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

from bench.channel.far import Far
from bench.channel.work import PATIENCE_S, Done, Job, Source, Toucher
from penstock.errors import ProcessError
from penstock.host.channel import (
    FOOTER_BYTES,
    Consumer,
    Doorbell,
    MessageKind,
    Producer,
    Ringer,
    shm,
)


class Near:
    """The near side: makes channels and doorbells, and passes them on."""

    name = "penstock"
    module, consume = __name__, "consume"

    def __init__(self) -> None:
        self.bell, self._theirs = Doorbell.create(), Doorbell.create()
        self.ringer = Ringer(self._theirs.files)
        self.sent_ns: list[int] = []

    def __call__(self, far: Far, job: Job, source: Source) -> float:
        ends = shm.create(job.slots, job.message_bytes + FOOTER_BYTES)
        producer = ends.producer(self.ringer.ring)
        self.hand_over(far, ends.file)
        ends.close()
        began = time.perf_counter()
        for message in source.runs(job):
            if not producer.send(MessageKind.ROWS, message):
                self.wait(producer.pump)
        return began

    def one_by_one(self, far: Far, job: Job, source: Source) -> float:
        """Send each message by itself, and keep when it was begun."""
        ends = shm.create(job.slots, job.message_bytes + FOOTER_BYTES)
        producer = ends.producer(self.ringer.ring)
        self.hand_over(far, ends.file)
        ends.close()
        times, clock = [], time.perf_counter_ns
        for message in source.messages(job):
            times.append(clock())
            if not producer.send(MessageKind.ROWS, message):
                self.wait(producer.pump)
        self.sent_ns = times
        return times[0] / 1e9

    def hand_over(self, far: Far, *files: int) -> None:
        """Pass descriptors to the far process and wait until it is ready."""
        passed = (*self.bell.files, *self._theirs.files, *files)
        far.link.send(len(passed))
        for file in passed:
            send_handle(far.link, file, far.pid)
        if far.tell() != "ready":
            raise ProcessError("the consumer of a benchmark is not ready")

    def wait(self, ready: Any) -> None:
        """Wait for the far process."""
        if not self.bell.wait(ready, PATIENCE_S):
            raise ProcessError("the consumer of a benchmark does nothing")


def attach(link: Connection) -> tuple[Doorbell, Consumer, Producer | None]:
    """The far side's ends, of the descriptors that the near one passes."""
    event, page, own_event, own_page, *files = (recv_handle(link) for _ in range(link.recv()))
    ring = Ringer((event, page)).ring
    consumer = shm.attach_consumer(files[0], ring)
    producer = shm.attach_producer(files[1], ring) if len(files) > 1 else None
    for file in (page, *files):
        os.close(file)
    bell = Doorbell.attach((own_event, own_page))
    link.send("ready")
    return bell, consumer, producer


def consume(link: Connection, job: Job) -> Done:
    """Take all messages of a transfer."""
    bell, consumer, _ = attach(link)
    toucher = Toucher(job)
    receive, done, take = consumer.receive, consumer.done, toucher.take
    while toucher.left:
        message = receive()
        if message is None:
            if not bell.wait(lambda: consumer.has_arrived, PATIENCE_S):
                raise ProcessError("the producer of a benchmark does nothing")
            continue
        take(message.payload)
        done(message)
        message = None  # so that its memory can be taken for the next one
    bell.close()
    return toucher.done()
