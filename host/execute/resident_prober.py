"""A prober that keeps what it made of blocks, and finds their windows by name on a device."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np

from penstock.plan.band import BandForm
from penstock.plan.plan import Evaluation

from ..device.base import Device, Kernel, WindowBuffer, WindowName
from ..keys.binding import Binder
from ..keys.prepare import Layout
from ..prune.slabs import Rearranged
from ..rows.stretches import NamedBlock
from ..windows.run import Snapshot
from .probe import BoundPart, Prober
from .stats import Stats
from .still import StillRun

#: Bytes of a key in a device's memory, at most.
_KEY_BYTES = 8


class ResidentProber(Prober):
    """Probes blocks by name.

    Parameters
    ----------
    scope : str
        Whose the names are.
    evaluation, device, stats, options
        As for :class:`~penstock.host.execute.probe.Prober`.
    """

    def __init__(
        self, scope: str, evaluation: Evaluation, device: Device, stats: Stats, **options: Any
    ) -> None:
        super().__init__(evaluation, device, stats, **options)
        self.scope = scope
        # Later stream tuples must not change the layout: its windows would have to be made anew.
        self.binder = Binder(self.form, device.key_widths, growing=True)
        self._runs: dict[str, StillRun] = {}
        self._names: dict[int, str] = {}
        self._contents: dict[tuple[int, Layout], str] = {}

    def run_of(self, block: NamedBlock) -> StillRun:
        """The run of a block, made once."""
        run = self._runs.get(block.name)
        if run is None:
            run = StillRun(block.rows.time, self.keys(block.rows.columns, len(block.rows)))
            self._runs[block.name], self._names[run.number] = run, block.name
        return run

    def keep(self, blocks: Collection[str]) -> None:
        """Forget all other blocks, and everything that has no name. Nothing may be running."""
        for name in self._runs.keys() - set(blocks):
            del self._names[self._runs.pop(name).number]
        runs = set(self._names)
        self.binder.keep(runs)
        levels = self.pruner.keep(runs)
        self.memory.keep(runs | levels)
        for key in [key for key in self._contents if key[0] not in runs | levels]:
            del self._contents[key]

    @property
    def nbytes(self) -> int:
        """Bytes of main memory, about."""
        form = self.form.form
        keys = len(form.tests) if isinstance(form, BandForm) else len(form.window_keys)
        windows = self.memory.positions * keys * _KEY_BYTES
        return windows + sum(run.nbytes for run in self._runs.values()) + self.pruner.nbytes

    @contextmanager
    def leased(self, part: BoundPart) -> Iterator[tuple[Kernel, WindowBuffer]]:
        source = part.ranges.source
        buffer = self._resident(source, part.layout) if self.device.keeps_windows else None
        if buffer is None:
            with super().leased(part) as found:
                yield found
            return
        kernel, window = buffer
        try:
            yield kernel, window
        finally:
            window.free()

    def _resident(
        self, source: Snapshot | Rearranged, made: Layout
    ) -> tuple[Kernel, WindowBuffer] | None:
        """The window of a block, or of its rows in another order, by name."""
        block = self._names.get(source.window.run if isinstance(source, Rearranged) else source.run)
        if block is None:
            return None
        kernel = self.memory.kernel(made.program)

        def columns() -> Sequence[np.ndarray]:
            # Positions are offsets, and a run that never changes begins at 0.
            return made.window(source.keys_between(source.first, source.end))

        key = source.run, made
        if key not in self._contents:
            self._contents[key] = _digest(columns())
        name = WindowName(self.scope, block, self._contents[key])
        window = kernel.resident(name, source.end, columns)
        return None if window is None else (kernel, window)


def _digest(columns: Sequence[np.ndarray]) -> str:
    """What tells windows of other keys apart."""
    found = blake2b(digest_size=16)
    for column in columns:
        found.update(f"{column.dtype.str} {len(column)};".encode())
        if column.dtype == object:  # keys that are no machine words
            found.update(repr(column.tolist()).encode())
        else:
            found.update(np.ascontiguousarray(column).data)
    return found.hexdigest()
