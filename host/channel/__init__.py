"""Channels between two processes: a ring of slots with one producer, one consumer, and credits.

:class:`Producer` and :class:`Consumer` are state machines without input and output. A provider
gives them memory: :mod:`.shm` that of one machine, :mod:`.sim` one in which writes arrive late and
in any order that a provider does not exclude. :class:`Doorbell` lets a process wait for all its
channels, and :mod:`.serving` lets it serve what arrives while it waits for credits.
"""

from __future__ import annotations

from .consumer import Consumer
from .doorbell import Doorbell, ProcessGoneError, Ringer, spin_seconds
from .message import FOOTER_BYTES, Kind, Message
from .producer import Producer
from .serving import Advance, advance, send_serving

__all__ = [
    "FOOTER_BYTES",
    "Advance",
    "Consumer",
    "Doorbell",
    "Kind",
    "Message",
    "ProcessGoneError",
    "Producer",
    "Ringer",
    "advance",
    "send_serving",
    "spin_seconds",
]
