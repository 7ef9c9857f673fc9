"""Coding of the protocol's messages as bytes.

Each begins with a code and the incarnation of its sender. Integers are little-endian. Large bodies
(rows, blocks of entries) follow as they are, without a copy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from penstock.plan.window import FOREVER

from ...device.fields import MalformedError
from .border import Buffer
from .messages import (
    DealtRows,
    DeltaBlock,
    EpochEnd,
    Mark,
    Message,
    Note,
    OutputRows,
    PartWritten,
    Promise,
    StepNotice,
    Withdrawal,
)

_HEAD = struct.Struct("<BI")
_NUMBER = struct.Struct("<Q")
#: Bytes before a body, so that its arrays stay aligned: the fields behind the head end in zeros.
BODY_OFFSET = 32
#: Epoch, and number of the block in it.
_DELTA = struct.Struct("<QI15x")
#: Epoch, blocks, rows, late rows, feeds.
_END = struct.Struct("<QIQQI")
#: Feed and promise; the highest bit marks a feed that has ended, as ``FOREVER`` has 65 bits.
_PROMISE = struct.Struct("<Iq")
_ENDED = 1 << 31
#: Number of the batch, feed, number of its first row in the feed.
_ROWS = struct.Struct("<QIQ7x")
#: Number of the checkpoint.
_OUTPUT = struct.Struct("<Q19x")
#: Number of the cut, and bytes of the first of two descriptions.
_PART = struct.Struct("<QI")

#: Feeds of a stream, at most.
MOST_FEEDS = _ENDED - 1

_CODES: dict[int, type] = dict(
    enumerate(
        (
            DeltaBlock,
            EpochEnd,
            Mark,
            DealtRows,
            Promise,
            Withdrawal,
            OutputRows,
            PartWritten,
            Note,
            StepNotice,
        ),
        1,
    )
)
_CODE_OF = {form: code for code, form in _CODES.items()}


def encode(message: Message) -> list[Buffer]:
    """Return the bytes of a message, in pieces to be sent one behind the other."""
    head = _HEAD.pack(_CODE_OF[type(message)], message.incarnation)
    match message:
        case DeltaBlock():
            return [head + _DELTA.pack(message.epoch, message.block), message.body]
        case EpochEnd():
            counts = message.epoch, message.blocks, message.rows, message.late
            feeds = [_promise(*pair) for pair in message.promises]
            return [b"".join([head, _END.pack(*counts, len(feeds)), *feeds])]
        case Mark():
            return [head + _NUMBER.pack(message.number)]
        case DealtRows():
            return [head + _ROWS.pack(message.number, message.feed, message.first), message.body]
        case Promise():
            return [head + _promise(message.feed, message.time)]
        case Withdrawal():
            return [head + _promise(message.feed, 0)]
        case OutputRows():
            return [head + _OUTPUT.pack(message.number), message.body]
        case PartWritten():
            sizes = _PART.pack(message.number, len(message.state))
            return [head + sizes, message.state, message.rows]
        case Note():
            return [head, message.body]
        case StepNotice():
            return [head + _promise(0, message.time)]


def decode(kind: str, payload: Buffer) -> Message:
    """Return the message in a payload; bodies are views into it.

    Parameters
    ----------
    kind : str
        Name of the kind under which it came, such as "DELTA".

    Raises
    ------
    MalformedError
        :func:`encode` writes no such message, or not under this kind.
    """
    reader = _Reader(memoryview(payload).cast("B"))
    code, incarnation = reader.take(_HEAD)
    form = _CODES.get(code)
    if form is None or form.kind != kind:
        raise MalformedError(
            f"a message of kind {kind} begins with code {code}, which stands for "
            f"{'nothing' if form is None else form.__name__}; the memory it came through is "
            "damaged, or its sender runs another version of Penstock"
        )
    message = _BODIES[form](incarnation, reader)
    if len(reader.unread):
        raise reader.damaged(f"{len(reader.unread)} bytes too long")
    return message


class _Reader:
    """Reader of a payload, which takes fields from its beginning."""

    def __init__(self, payload: memoryview) -> None:
        self.unread = payload
        self._size = len(payload)

    def take(self, form: struct.Struct) -> tuple[Any, ...]:
        if len(self.unread) < form.size:
            raise self.damaged(f"{form.size - len(self.unread)} bytes too short")
        values = form.unpack_from(self.unread)
        self.unread = self.unread[form.size :]
        return values

    def body(self) -> memoryview:
        body, self.unread = self.unread, self.unread[len(self.unread) :]
        return body

    def split(self, size: int) -> memoryview:
        if len(self.unread) < size:
            raise self.damaged(f"{size - len(self.unread)} bytes too short")
        body, self.unread = self.unread[:size], self.unread[size:]
        return body

    def damaged(self, why: str) -> MalformedError:
        return MalformedError(
            f"a message between workers of {self._size} bytes is damaged: {why}; the memory it "
            "came through is damaged, or its sender runs another version of Penstock"
        )


def _promise(feed: int, time: int) -> bytes:
    return _PROMISE.pack(feed | _ENDED, 0) if time == FOREVER else _PROMISE.pack(feed, time)


def _promised(reader: _Reader) -> tuple[int, int]:
    feed, time = reader.take(_PROMISE)
    if not feed & _ENDED:
        return feed, time
    if time:
        raise reader.damaged(f"feed {feed - _ENDED} ends at {time}")
    return feed - _ENDED, FOREVER


def _from_one(reader: _Reader, name: str, value: int) -> int:
    if value < 1:
        raise reader.damaged(f"its {name} is 0, and counts from 1 on")
    return value


def _delta(incarnation: int, reader: _Reader) -> DeltaBlock:
    epoch, block = reader.take(_DELTA)
    return DeltaBlock(incarnation, _from_one(reader, "epoch", epoch), block, reader.body())


def _end(incarnation: int, reader: _Reader) -> EpochEnd:
    epoch, blocks, rows, late, feeds = reader.take(_END)
    if len(reader.unread) != feeds * _PROMISE.size:
        raise reader.damaged(f"{len(reader.unread)} bytes for {feeds} promises")
    promises = tuple(_promised(reader) for _ in range(feeds))
    if any(after[0] <= before[0] for before, after in pairwise(promises)):
        raise reader.damaged("its feeds are not in order")
    return EpochEnd(incarnation, _from_one(reader, "epoch", epoch), blocks, rows, late, promises)


def _mark(incarnation: int, reader: _Reader) -> Mark:
    return Mark(incarnation, _from_one(reader, "number", *reader.take(_NUMBER)))


def _dealt_rows(incarnation: int, reader: _Reader) -> DealtRows:
    number, feed, first = reader.take(_ROWS)
    number = _from_one(reader, "number", number)
    return DealtRows(incarnation, number, feed, first, reader.body())


def _withdrawal(incarnation: int, reader: _Reader) -> Withdrawal:
    feed, time = _promised(reader)
    if time:
        raise reader.damaged("a feed is withdrawn at a time")
    return Withdrawal(incarnation, feed)


def _step(incarnation: int, reader: _Reader) -> StepNotice:
    feed, time = _promised(reader)
    if feed:
        raise reader.damaged("a step is of a feed")
    return StepNotice(incarnation, time)


def _output(incarnation: int, reader: _Reader) -> OutputRows:
    number = _from_one(reader, "number", *reader.take(_OUTPUT))
    return OutputRows(incarnation, number, reader.body())


def _part(incarnation: int, reader: _Reader) -> PartWritten:
    number, size = reader.take(_PART)
    number, state = _from_one(reader, "number", number), bytes(reader.split(size))
    return PartWritten(incarnation, number, state, bytes(reader.body()))


_BODIES: dict[type, Callable[[int, _Reader], Message]] = {
    DeltaBlock: _delta,
    EpochEnd: _end,
    Mark: _mark,
    DealtRows: _dealt_rows,
    Promise: lambda incarnation, reader: Promise(incarnation, *_promised(reader)),
    Withdrawal: _withdrawal,
    OutputRows: _output,
    PartWritten: _part,
    Note: lambda incarnation, reader: Note(incarnation, bytes(reader.body())),
    StepNotice: _step,
}
