"""How long a message takes there and back, from Python to Python."""

from __future__ import annotations

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from bench.channel.far import Far
from bench.channel.ours import Near, attach
from bench.channel.work import PATIENCE_S
from penstock.errors import ProcessError
from penstock.host.channel import MessageKind, shm


@dataclass(frozen=True)
class Echo:
    """A number of messages there and back, one after another.

    Parameters
    ----------
    nbytes, rounds : int
    spin_s : float
        That both sides spin before they sleep; 0 to sleep at once.
    pause_s : float
        Between rounds, so that the other side has gone to sleep.
    """

    nbytes: int
    rounds: int
    spin_s: float
    pause_s: float = 0.0


def there_and_back(near: Near, far: Far, job: Echo) -> np.ndarray:
    """Seconds of each round, without the first tenth."""
    there, back = shm.create(), shm.create()
    producer, consumer = there.producer(near.ringer.ring), back.consumer(near.ringer.ring)
    far.ask(job)
    near.hand_over(far, there.file, back.file)
    there.close()
    back.close()
    payload, seconds = b"x" * job.nbytes, np.zeros(job.rounds)
    clock, wait = time.perf_counter, near.bell.wait

    def ready() -> bool:
        return consumer.has_arrived

    for number in range(job.rounds):
        if job.pause_s:
            near.bell.wait(lambda: False, job.pause_s, spin_s=0.0)
        began = clock()
        producer.send(MessageKind.ROWS, payload)
        wait(ready, PATIENCE_S, spin_s=job.spin_s)
        message = consumer.receive()
        seconds[number] = clock() - began
        if message is None or len(message.payload) != job.nbytes:
            raise ProcessError(f"the echo of a benchmark is {message!r}")
        consumer.done(message)
    producer.send(MessageKind.CLOSE)
    far.tell()
    return seconds[job.rounds // 10 :]


def echo(link: Connection, job: Echo) -> None:
    """Send back what comes, until CLOSE."""
    bell, consumer, producer = attach(link)
    assert producer is not None

    def ready() -> bool:
        return consumer.has_arrived

    while True:
        if not bell.wait(ready, PATIENCE_S, spin_s=job.spin_s):
            raise ProcessError("the other side of a benchmark does nothing")
        message = consumer.receive()
        if message is None:
            continue
        if message.kind is MessageKind.CLOSE:
            break
        producer.send(message.kind, bytes(message.payload))
        consumer.done(message)
    bell.close()
