"""A device as if its units were narrow, around any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from threading import Lock

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Device, Kernel
from penstock.host.device.wrapped import WrappedDevice
from penstock.host.devices.narrow.kernel import (
    NARROW_WIDTHS,
    narrow_refusal,
    open_narrow,
    units_of,
)
from penstock.program import AnyProgram, BandProgram, Mode


class NarrowDevice(WrappedDevice):
    """A device as if its units had so many bits: a model of a card with a narrow build.

    Parameters
    ----------
    inner : Device
        Closed with this one.
    bits : int or None
        2 to 64, of which it must take programs; None for builds as programs ask for them.
    """

    def __init__(self, inner: Device, bits: int | None) -> None:
        super().__init__(inner)
        if bits is not None and not 2 <= bits <= 64:
            raise DeviceError(f"units have codes of 2 to 64 bits, not {bits!r}")
        self.bits = bits
        self.narrow_widths = NARROW_WIDTHS if bits is None else (bits,)
        # Windows by name and rows to search have full codes.
        self.keeps_windows = self.searches = False
        self._sums: Counter[str] = Counter()
        self._lock = Lock()

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        reason = None if self.bits is None else narrow_refusal(program, modes, self.bits)
        return reason or self.inner.refuses(program, modes)

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        if reason := self.refuses(program, modes):
            raise DeviceError(f"the {self.name} device cannot run this program: {reason}")
        if isinstance(program, BandProgram) and (bits := units_of(program, modes, self.bits)):
            return open_narrow(program, bits, self.inner.open, self._count)
        return super().open(program, modes)

    def _count(self, counters: Mapping[str, int]) -> None:
        with self._lock:
            self._sums.update(counters)

    def counters(self) -> dict[str, int]:
        with self._lock:
            return {**self.inner.counters(), **self._sums}
