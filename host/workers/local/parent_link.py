"""The parent as its children see it: two channels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from ...channel import Consumer, Kind, Message, Producer
from ..dealt import packed, unpacked
from ..protocol import messages
from ..protocol.coding import decode, encode
from ..upstream import Status, Upstream, status_header


class ParentLink(Upstream):
    """The channels from and to the parent.

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
        found = self._consumer.receive()
        if found is None:
            return None
        self._open = found
        if found.kind is Kind.CLOSE:
            self.closed = True
            self.done()
            return None
        message = decode(found.kind.name, found.payload)
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

    def give(self, message: messages.OutputRows | messages.PartWritten | Status) -> None:
        if isinstance(message, Status):
            self._producer.send(Kind.HELLO, json.dumps(status_header(message)).encode())
            return
        if isinstance(message, messages.OutputRows):
            message = replace(message, body=packed(message.body))
        self._producer.send(Kind[message.kind], encode(message))

    def pump(self) -> bool:
        if not self._producer.pending or not self._producer.credits:
            return False
        self._producer.pump()
        return True
