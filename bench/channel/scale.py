"""How much the benchmark measures."""

from __future__ import annotations

from dataclasses import dataclass

from bench.channel.work import Job

SLOT_BYTES = 1 << 16
#: Messages of the smallest transfer, however large they are.
LEAST_MESSAGES = 64


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured.

    Parameters
    ----------
    cold_bytes : int
        Memory that is read from.
    transfer_bytes : int
        Of one transfer.
    rounds : int
        Turns of each contender.
    turns : int
        Of each point of a curve.
    echoes, sleeps : int
        Messages there and back, spinning and asleep.
    """

    cold_bytes: int
    transfer_bytes: int
    rounds: int
    turns: int
    echoes: int
    sleeps: int

    def job(self, message_bytes: int, slots: int = 8, *, share: float = 1.0) -> Job:
        """A transfer of messages of a size.

        Parameters
        ----------
        message_bytes, slots : int
        share : float
            Of the usual transfer.
        """
        count = max(int(self.transfer_bytes * share) // message_bytes, LEAST_MESSAGES)
        return Job(message_bytes, count, slots)


FULL = Scale(
    cold_bytes=1 << 29, transfer_bytes=1 << 30, rounds=7, turns=3, echoes=50_000, sleeps=2_000
)
QUICK = Scale(
    cold_bytes=1 << 28, transfer_bytes=1 << 28, rounds=3, turns=1, echoes=10_000, sleeps=500
)
