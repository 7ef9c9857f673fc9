"""Whoever waits for a credit goes on serving its own arrivals.

Otherwise processes that all send to one another wait in a circle: each for a credit of the next
one, which gives none before its own message is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from penstock.errors import OverloadError
from penstock.host.channel.doorbell import Doorbell
from penstock.host.channel.message import MessageKind
from penstock.host.channel.producer import Producer


class Advance(Enum):
    """What one step of sending did."""

    #: All of the message is sent.
    SENT = auto()
    #: Something that had arrived was served; it may have given or taken credits.
    SERVED = auto()
    #: There are no credits and no arrivals.
    WAITS = auto()


def advance(producer: Producer, serve: Callable[[], bool]) -> Advance:
    """Go one step on with a message that waits for credits; never waits.

    Parameters
    ----------
    producer : Producer
    serve : callable
        Serves one arrival of any channel of this process; False if there is none. It must not
        send on this producer.
    """
    if producer.pump():
        return Advance.SENT
    return Advance.SERVED if serve() else Advance.WAITS


def send_serving(
    producer: Producer,
    kind: MessageKind,
    payload: Any,
    *,
    serve: Callable[[], bool],
    arrived: Callable[[], bool],
    bell: Doorbell,
    timeout_s: float,
) -> None:
    """Send a message, serving arrivals while it waits for credits.

    Parameters
    ----------
    producer : Producer
    kind, payload
        Those of :meth:`.Producer.send`.
    serve : callable
        That of :func:`advance`.
    arrived : callable
        Whether ``serve`` has something to serve.
    bell : Doorbell
        This process' own.
    timeout_s : float
        For which the consumer may give no credit.

    Raises
    ------
    OverloadError
        The consumer has given no credit for so long.
    ProcessGoneError
        A watched process has ended.
    MalformedError
    """
    if producer.send(kind, payload):
        return
    deadline, credit = time.monotonic() + timeout_s, producer.sent
    while (outcome := advance(producer, serve)) is not Advance.SENT:
        if producer.sent != credit:
            deadline, credit = time.monotonic() + timeout_s, producer.sent
        left = deadline - time.monotonic()
        if left <= 0:
            raise OverloadError(
                f"channel {producer.memory.channel:#x}: no credit for {timeout_s:g} s; the "
                "process that reads it is stopped or too slow: raise the timeout, or send less"
            )
        if outcome is Advance.WAITS:
            bell.wait(lambda: producer.credits > 0 or arrived(), left)
