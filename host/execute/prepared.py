"""Prepares whole tables for devices: runs of window keys, orders, device memory.

Blocks of tables may stay prepared between joins; devices find their windows by name.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from penstock.plan.band import BandForm
from penstock.plan.plan import Evaluation
from penstock.program import Mode

from ..device.base import PAIRS, Device, WindowName
from ..device.cut import Cutting
from ..keys.prepare import Layout, window_keys
from ..prune.parts import OrderedRun
from ..prune.sizes import Pruning
from ..rows.sides import SideRows
from ..rows.stretches import WindowPart
from ..windows.run import Readable, Snapshot, still
from .buffers import BufferRing, RingSpan
from .maker import OrderMaker
from .memory import DeviceMemory, Lease, Window


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


#: Bytes of a key in a device's memory, at most.
_KEY_BYTES = 8


class PreparedBlocks(Prepared):
    """Runs of blocks, each made once; further parameters as for :class:`Prepared`.

    Parameters
    ----------
    scope : str
        Scope within which names of blocks are unique.
    """

    # Later tuples must not change the layout: its windows would have to be rebuilt.
    growing = True

    def __init__(self, scope: str, *args: Any) -> None:
        self.scope = scope
        self._runs: dict[tuple, Snapshot] = {}
        self._names: dict[int, str] = {}
        self._keys = 1
        super().__init__(*args)

    def _memory(self, device: Device) -> DeviceMemory:
        return _BlockMemory(device, self)

    def run_of(self, evaluation: Evaluation, part: WindowPart) -> Snapshot:
        block = part.block
        if block is None:
            return super().run_of(evaluation, part)
        key = block.name, key_of(evaluation)
        if key not in self._runs:
            run = self.run(evaluation, block.rows)
            self._runs[key], self._names[run.run] = run, block.name
            form = evaluation.form.form
            tests = len(form.tests) if isinstance(form, BandForm) else len(form.window_keys)
            self._keys = max(self._keys, tests)
        return self._runs[key]

    def name_of(self, source: Readable) -> str | None:
        """Return the name of the block whose rows a run has, in any order; None without one."""
        run = source.base if isinstance(source, OrderedRun) else source.run
        return self._names.get(run)

    def keep(self, blocks: Collection[str]) -> None:
        """Forget all other blocks, and all runs without a name. No task may be running."""
        wanted = set(blocks)
        for key in [key for key in self._runs if key[0] not in wanted]:
            del self._names[self._runs.pop(key).run]
        runs = set(self._names)
        kept = runs.union(*(maker.keep(runs) for maker in self._makers.values()))
        for memory in self.memories:
            memory.keep(kept)

    @property
    def nbytes(self) -> int:
        """Approximate bytes of main memory."""
        windows = sum(memory.positions for memory in self.memories) * self._keys * _KEY_BYTES
        runs = sum(run.nbytes for run in self._runs.values())
        return windows + runs + sum(maker.nbytes for maker in self._makers.values())


@dataclass(kw_only=True)
class _NamedWindow(Window):
    """A window that a device keeps by name: run and layout are its ``key``."""

    key: tuple[int, Layout]


class _BlockMemory(DeviceMemory):
    """Device memory that finds windows of blocks by name, on a device that keeps windows."""

    def __init__(self, device: Device, blocks: PreparedBlocks) -> None:
        super().__init__(device, growing=False)
        self._blocks = blocks
        self._contents: dict[tuple[int, Layout], str] = {}
        self._named: dict[tuple[int, Layout], _NamedWindow] = {}

    def lease(
        self,
        window: Readable,
        layout: Layout,
        low: int,
        high: int,
        timeout_s: float,
        modes: frozenset[Mode] = PAIRS,
    ) -> Lease:
        resident = self._named_window(window, layout, modes) if self.device.keeps_windows else None
        if resident is None:
            return super().lease(window, layout, low, high, timeout_s, modes)
        # Positions are offsets: a run that never changes begins at 0.
        return Lease(resident, low, high, (RingSpan(low, low, high),))

    def release(self, lease: Lease | None) -> None:
        if lease is None or not isinstance(window := lease.window, _NamedWindow):
            super().release(lease)
            return
        with self._changed:
            window.leases -= 1
            if window.leases:
                return
            if self._named.get(window.key) is window:  # a lost one has been replaced
                del self._named[window.key]
        window.buffers[0].free()

    def quarantine(self, lease: Lease | None) -> None:
        # A server frees its own windows.
        if lease is None or not isinstance(lease.window, _NamedWindow):
            super().quarantine(lease)

    def keep(self, runs: set[int]) -> None:
        super().keep(runs)
        for key in [key for key in self._contents if key[0] not in runs]:
            del self._contents[key]

    def _named_window(
        self, source: Readable, layout: Layout, modes: frozenset[Mode]
    ) -> _NamedWindow | None:
        """Find the window of a block's rows, in any order, by name; None if it has none."""
        block = self._blocks.name_of(source)
        if block is None:
            return None
        key = source.run, layout

        def columns() -> Sequence[np.ndarray]:
            return source.columns(layout, source.first, source.end)

        with self._changed:
            held = self._named.get(key)
            if held is not None and not held.lost:
                held.leases += 1
                return held
        kernel = self.kernel(layout.program, modes)
        if key not in self._contents:
            self._contents[key] = _digest(columns())
        name = WindowName(self._blocks.scope, block, self._contents[key])
        buffer = kernel.resident(name, source.end, columns)
        if buffer is None:
            return None
        window = _NamedWindow(
            layout, kernel, (buffer,), BufferRing(max(source.end, 1)), leases=1, key=key
        )
        with self._changed:
            self._named[key] = window
        return window


def _digest(columns: Sequence[np.ndarray]) -> str:
    """Return a digest that tells windows of different keys apart."""
    digest = blake2b(digest_size=16)
    for column in columns:
        digest.update(f"{column.dtype.str} {len(column)};".encode())
        if column.dtype == object:  # keys that are not machine words
            digest.update(repr(column.tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()
