"""Channels between two processes: a ring of slots with one producer, one consumer, and credits.

:class:`Producer` and :class:`Consumer` are state machines without input and output. A provider
gives them memory: :mod:`.shm` that of one machine, :mod:`.ucx` that of two. :class:`Doorbell` lets
a process wait for all its channels.
"""

from __future__ import annotations

from .consumer import Consumer
from .doorbell import Doorbell, ProcessGoneError, Ringer, spin_seconds
from .message import FOOTER_BYTES, Message, MessageKind
from .producer import Producer

__all__ = [
    "FOOTER_BYTES",
    "Consumer",
    "Doorbell",
    "Message",
    "MessageKind",
    "ProcessGoneError",
    "Producer",
    "Ringer",
    "spin_seconds",
]
