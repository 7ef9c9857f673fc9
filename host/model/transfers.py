"""Transfers between host and device memory.

Two orders are in flight on a lane (:mod:`penstock.host.execute.lane`): one is transferred while the
other is evaluated. Transfers are hidden if a batch's transfers end before the next batch is cut.
"""

from __future__ import annotations

from dataclasses import dataclass

from .load import Load, check_above_0, check_not_negative

#: Transfers of a batch: new window tuples, stream tuples and results, for both streams.
TRANSFERS = 6


@dataclass(frozen=True, kw_only=True)
class TransferLink:
    """A link, and the data that it carries.

    Parameters
    ----------
    bandwidth_bytes_per_s : float
        The default of 12 GB/s is the net rate of PCIe 3.0 with 16 lanes.
    transfer_s : float
        Fixed cost of a transfer. The default is an assumption: no board was measured.
    tuple_bytes : float
        Bytes of an arriving tuple, as stream tuple plus as window tuple. The default is for two
        band tests on 32-bit keys: four bounds with their range padded to 32 bytes, and two keys.

    Raises
    ------
    UsageError
        A value is out of range.
    """

    bandwidth_bytes_per_s: float = 12e9
    transfer_s: float = 30e-6
    tuple_bytes: float = 40.0

    def __post_init__(self) -> None:
        check_above_0(
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s, tuple_bytes=self.tuple_bytes
        )
        check_not_negative(transfer_s=self.transfer_s)

    def batch_s(self, load: Load) -> float:
        """Seconds that the transfers of a batch take."""
        moved = load.rate_per_s * load.interval_s * self.tuple_bytes
        return TRANSFERS * self.transfer_s + moved / self.bandwidth_bytes_per_s

    def utilisation(self, load: Load) -> float:
        """Share of the link's time that a load takes; above 1, transfers are not hidden."""
        return self.batch_s(load) / load.interval_s

    def smallest_latency_s(self, load: Load) -> float | None:
        """Smallest latency target at which transfers are hidden; None if the link is too slow."""
        left = 1 - load.rate_per_s * self.tuple_bytes / self.bandwidth_bytes_per_s
        if left <= 0:
            return None
        return TRANSFERS * self.transfer_s / left * load.latency_s / load.interval_s
