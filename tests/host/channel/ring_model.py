"""Processes in a ring, each of which sends to the next one before it looks at what arrives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace

from penstock.host.channel import FOOTER_BYTES, Consumer, MessageKind, Producer
from tests.host.channel.model import channel_content, content, copied, copied_channel
from tests.host.channel.serving import Advance, advance
from tests.host.channel.sim import SimChannel
from tests.kit.explorer import Step


@dataclass(frozen=True)
class Ring:
    """Channel i leads from process i to the next one.

    Parameters
    ----------
    channels, producers, consumers : tuples
        By channel.
    sent, served : tuple of int
        Messages, by the process that has sent or served them.
    """

    channels: tuple[SimChannel, ...]
    producers: tuple[Producer, ...]
    consumers: tuple[Consumer, ...]
    sent: tuple[int, ...]
    served: tuple[int, ...]

    def copy(self) -> Ring:
        channels = tuple(map(copied_channel, self.channels))
        return replace(
            self,
            channels=channels,
            producers=tuple(
                copied(machine, memory=channel)
                for machine, channel in zip(self.producers, channels, strict=True)
            ),
            consumers=tuple(
                copied(machine, memory=channel)
                for machine, channel in zip(self.consumers, channels, strict=True)
            ),
        )


class RingModel:
    """A ring of processes.

    Parameters
    ----------
    processes, slots : int
        n and c.
    messages : int
        That each process sends, before it serves what is left.
    delays : bool
        Whether writes arrive late.
    step : callable
        :func:`.advance`, or a mutant of it.
    """

    def __init__(
        self,
        processes: int,
        slots: int,
        messages: int,
        *,
        delays: bool,
        step: Callable[[Producer, Callable[[], bool]], Advance] = advance,
    ) -> None:
        self.messages = messages
        self.delays = delays
        self.advance = step
        channels = tuple(
            SimChannel(slots, 1 + FOOTER_BYTES, channel=number) for number in range(processes)
        )
        zeros = (0,) * processes
        self.first = Ring(
            channels, tuple(map(Producer, channels)), tuple(map(Consumer, channels)), zeros, zeros
        )

    def steps(self, state: Ring) -> Iterable[Step[Ring]]:
        for number, channel in enumerate(state.channels):
            for way, writes in enumerate((channel.forward, channel.backward)):
                for place in channel.ready(writes):
                    yield (
                        f"{number}: {writes[place]} arrives",
                        lambda n=number, w=way, p=place: _arrive(state, n, w, p),
                    )
            yield f"process {number}", lambda n=number: self._run(state, n)

    def _run(self, state: Ring, number: int) -> Ring:
        """What a process does until it would wait, or has done one thing."""
        after = state.copy()
        producer, before = after.producers[number], number - 1
        sent, served = list(after.sent), list(after.served)

        def serve() -> bool:
            message = after.consumers[before].receive()
            if message is None:
                return False
            if bytes(message.payload) != bytes([served[number]]):
                raise AssertionError(f"I2: {bytes(message.payload)!r} at {served[number]}")
            after.consumers[before].done(message)
            served[number] += 1
            return True

        if producer.pending:
            self.advance(producer, serve)
        elif sent[number] < self.messages:
            producer.send(MessageKind.DELTA, bytes([sent[number]]))
            sent[number] += 1
        else:
            serve()
        if not self.delays:
            for channel in after.channels:
                for writes in (channel.forward, channel.backward):
                    while writes:
                        channel.arrive(writes, 0)
        return replace(after, sent=tuple(sent), served=tuple(served))

    def problem(self, state: Ring) -> str | None:
        if any(producer.credits < 0 for producer in state.producers):
            return "I1: more is sent than there are slots"
        return None

    def is_end(self, state: Ring) -> bool:
        return all(count == self.messages for count in state.served)

    def key(self, state: Ring) -> Hashable:
        return (
            tuple(map(channel_content, state.channels)),
            tuple(map(content, state.producers)),
            tuple(map(content, state.consumers)),
            state.sent,
            state.served,
        )


def _arrive(state: Ring, number: int, way: int, place: int) -> Ring:
    after = state.copy()
    channel = after.channels[number]
    channel.arrive((channel.forward, channel.backward)[way], place)
    return after
