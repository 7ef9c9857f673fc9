"""A channel's real state machines and simulated memory as a model: every interleaving, every delay.

A state holds copies of both machines, the memory between them, and what their processes have done.
The invariants are those of docs/inside/channel.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.host.channel import FOOTER_BYTES, Consumer, MessageKind, Producer
from penstock.host.channel.cut import Cut
from tests.host.channel.sim import SimChannel
from tests.kit.explorer import Step


def copied(machine: Any, **others: Any) -> Any:
    """A copy of a machine with slots; its lists, sets and messages are copied, too."""
    twin = object.__new__(type(machine))
    for name in machine.__slots__:
        value = getattr(machine, name)
        if isinstance(value, list | set | Cut):
            value = value.copy()
        setattr(twin, name, value)
    for name, value in others.items():
        setattr(twin, name, value)
    return twin


def copied_channel(channel: SimChannel) -> SimChannel:
    """A copy of a channel's memory and of what is on its way."""
    twin = object.__new__(type(channel))
    twin.__dict__.update(channel.__dict__)
    twin.payloads = [payload.copy() for payload in channel.payloads]
    twin.footers, twin.sequences = channel.footers.copy(), channel.sequences.copy()
    twin.forward, twin.backward = channel.forward.copy(), channel.backward.copy()
    return twin


def content(machine: Any) -> Hashable:
    """All that a machine remembers, as a value."""
    return tuple(
        _frozen(getattr(machine, name))
        for name in machine.__slots__
        if name not in ("memory", "_ring", "_rooms")
    )


def channel_content(channel: SimChannel) -> Hashable:
    """All that a channel's memory holds, and what is on its way."""
    return (
        tuple(map(bytes, channel.payloads)),
        tuple(channel.footers),
        tuple(channel.sequences),
        channel.credit,
        tuple(channel.forward),
        tuple(channel.backward),
    )


def _frozen(value: Any) -> Hashable:
    if isinstance(value, Cut):
        return value.kind, bytes(value.content())
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, list):
        return tuple(_frozen(part) for part in value)
    return frozenset(value) if isinstance(value, set) else value


@dataclass(frozen=True)
class State:
    """Both sides of a channel.

    Parameters
    ----------
    channel, producer, consumer
        The real ones.
    sent : int
        Messages given to the producer.
    open : tuple of (message number, sequence, slot, length)
        Messages received and not done.
    done : int
        Messages done.
    dead : str
        Which side has died; empty while both live.
    """

    channel: SimChannel
    producer: Producer
    consumer: Consumer
    sent: int = 0
    open: tuple[Any, ...] = field(default=())
    done: int = 0
    dead: str = ""

    def copy(self, **changes: Any) -> State:
        channel = copied_channel(self.channel)
        return replace(
            self,
            channel=channel,
            producer=copied(self.producer, memory=channel),
            consumer=copied(self.consumer, memory=channel),
            **changes,
        )


class ChannelModel:
    """One channel that carries messages of known content.

    Parameters
    ----------
    slots : int
        c.
    messages : list of bytes
    modulus : int
        Of sequence numbers: they wrap if it is small.
    payload_bytes : int
        That a slot takes; larger messages are cut.
    grain_bytes : int
        A payload arrives in parts of so many bytes.
    deaths : bool
        Whether either side may die at any time.
    producer, consumer, memory : class
        Mutants stand in for the real ones.
    """

    def __init__(
        self,
        slots: int,
        messages: list[bytes],
        *,
        modulus: int,
        payload_bytes: int = 2,
        grain_bytes: int = 1,
        deaths: bool = False,
        producer: type[Producer] = Producer,
        consumer: type[Consumer] = Consumer,
        memory: type[SimChannel] = SimChannel,
    ) -> None:
        self.messages = messages
        self.deaths = deaths
        self.modulus = modulus
        channel = memory(slots, payload_bytes + FOOTER_BYTES, grain_bytes=grain_bytes)
        self.first = State(
            channel,
            producer(channel, modulus=modulus),
            consumer(channel, modulus=modulus),
        )
        #: What each slot holds, in the order of slots: whole messages, or parts of one.
        self.slots = [
            (number, message[start : start + payload_bytes])
            for number, message in enumerate(messages)
            for start in range(0, max(1, len(message)), payload_bytes)
        ]

    def steps(self, state: State) -> Iterable[Step[State]]:
        channel = state.channel
        for place in channel.ready(channel.forward):
            yield f"{channel.forward[place]} arrives", lambda p=place: _arrive(state, p, 0)
        for place in channel.ready(channel.backward):
            yield f"{channel.backward[place]} arrives", lambda p=place: _arrive(state, p, 1)
        for place in range(len(channel.backward) - 1):
            yield f"{channel.backward[place]} is lost", lambda p=place: _lose(state, p)
        if state.dead != "producer":
            if state.producer.pending:
                yield "pump", lambda: _pump(state)
            elif state.sent < len(self.messages):
                yield f"send {state.sent}", lambda: self._send(state)
        if state.dead != "consumer":
            yield "receive", lambda: self._receive(state)
            if state.open:
                yield f"done {state.open[0][0]}", lambda: self._done(state)
        if self.deaths and not state.dead:
            for side in ("producer", "consumer"):
                yield f"the {side} dies", lambda s=side: state.copy(dead=s)

    def _send(self, state: State) -> State:
        after = state.copy(sent=state.sent + 1)
        after.producer.send(MessageKind.ROWS, self.messages[state.sent])
        return after

    def _receive(self, state: State) -> State:
        after = state.copy()
        slot = after.consumer._slot
        message = after.consumer.receive()
        if message is None:
            return after
        number = after.done + len(after.open)
        if number >= after.sent:
            raise AssertionError(f"I2: message {number} arrives before it was sent")
        got = bytes(message.payload)
        if got != self.messages[number]:
            raise AssertionError(f"I2: message {number} arrives as {got!r}")
        if message.is_copy:
            # Cut messages are copied: there is nothing to hold.
            after.consumer.done(message)
            return replace(after, open=(*after.open, (number, None)))
        return replace(after, open=(*after.open, (number, (message.sequence, slot, len(got)))))

    def _done(self, state: State) -> State:
        _, held = state.open[0]
        after = state.copy(open=state.open[1:], done=state.done + 1)
        if held is not None:
            sequence, slot, length = held
            payload = after.channel.payload(slot, length)
            message = _Held(payload, sequence)
            after.consumer.done(message)  # type: ignore[arg-type]
        return after

    def problem(self, state: State) -> str | None:
        channel = state.channel
        # Slots sent and processed, as counts that do not wrap.
        sent = self._count(state.producer._sent, self._slots_of(state.sent))
        processed = self._count(state.consumer._processed, sent)
        if not 0 <= sent - processed <= channel.slots:
            return f"I1: {sent} slots sent, {processed} processed, {channel.slots} slots"
        for number, held in state.open:
            if held is not None:
                _, slot, length = held
                if bytes(channel.payload(slot, length)) != self.messages[number]:
                    return f"I3: message {number} was overwritten before its credit"
        # Slots that can be seen and are not processed: whole, and not yet written again.
        for index in range(processed, sent):
            slot = (index + 1) % channel.slots
            if channel.sequences[slot] == (index + 1) % self.modulus:
                _, part = self.slots[index]
                if bytes(channel.payloads[slot][: len(part)]) != part:
                    return f"I4: slot {index + 1} can be seen without its payload"
        return None

    def _slots_of(self, messages: int) -> int:
        return sum(number < messages for number, _ in self.slots)

    def _count(self, wrapped: int, most: int) -> int:
        """The largest number up to ``most`` that wraps to this one."""
        return most - (most - wrapped) % self.modulus

    def is_end(self, state: State) -> bool:
        # A survivor learns of a death from its process' end, at any time.
        return bool(state.dead) or state.done == len(self.messages)

    def key(self, state: State) -> Hashable:
        return (
            channel_content(state.channel),
            content(state.producer),
            content(state.consumer),
            state.sent,
            state.open,
            state.done,
            state.dead,
        )


@dataclass
class _Held:
    """A message that was received in an earlier state."""

    payload: memoryview
    sequence: int
    is_copy: bool = False


def _arrive(state: State, place: int, way: int) -> State:
    after = state.copy()
    writes = (after.channel.forward, after.channel.backward)[way]
    after.channel.arrive(writes, place)
    return after


def _lose(state: State, place: int) -> State:
    """A count of credits is lost that a later one follows."""
    after = state.copy()
    del after.channel.backward[place]
    return after


def _pump(state: State) -> State:
    after = state.copy()
    after.producer.pump()
    return after
