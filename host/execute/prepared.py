"""Prepares whole tables for devices: runs of window keys, orders, device memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from penstock.plan.plan import Evaluation

from ..device.base import Device
from ..device.cut import Cutting
from ..keys.prepare import window_keys
from ..prune.sizes import Pruning
from ..rows.sides import SideRows
from ..rows.stretches import WindowPart
from ..windows.run import Snapshot, still
from .maker import OrderMaker
from .memory import DeviceMemory


class Prepared:
    """Runs, makers of orders and device memory of one join.

    Parameters
    ----------
    devices : sequence of Device
    names : mapping of side to str
        Names of the sides in the query, for messages.
    pruning : Pruning or None
    """

    #: Whether later probes may bring other values.
    growing = False

    def __init__(
        self,
        devices: Sequence[Device],
        names: Mapping[str, str],
        cutting: Cutting,
        pruning: Pruning | None,
    ) -> None:
        self.devices = devices
        self.names = names
        self.cutting = cutting
        self.pruning = pruning
        self.memories: Sequence[DeviceMemory] = [self._memory(device) for device in devices]
        self._makers: dict[Hashable, OrderMaker] = {}

    def _memory(self, device: Device) -> DeviceMemory:
        return DeviceMemory(device, growing=False)

    def maker(self, evaluation: Evaluation) -> OrderMaker:
        """Return the maker of orders of an evaluation's probes."""
        key = key_of(evaluation)
        if key not in self._makers:
            self._makers[key] = OrderMaker(
                evaluation,
                self.devices,
                self.names,
                self.cutting,
                pruning=self.pruning,
                growing=self.growing,
            )
        return self._makers[key]

    def run(self, evaluation: Evaluation, rows: SideRows) -> Snapshot:
        """Return rows of the window's side as a run that never changes, without base rows."""
        return still(rows.time, window_keys(evaluation.form, rows.columns, len(rows)))

    def run_of(self, evaluation: Evaluation, part: WindowPart) -> Snapshot:
        """Return one part of a window as a run that never changes."""
        return self.run(evaluation, part.rows)

    def close(self) -> None:
        """Free device memory. No task may be running."""
        for memory in self.memories:
            memory.close()


def key_of(evaluation: Evaluation) -> Hashable:
    """Return a value that is equal for evaluations with the same keys and programs."""
    form = evaluation.form
    # The keys to search by follow from the predicate.
    return form.window, form.form, form.predicate, evaluation.modes
