"""Where the blocks of one query are kept: in this process, and on devices that keep windows."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from penstock.plan.plan import Evaluation

from ..device.base import Device
from .resident_cache import BlockCache
from .resident_prober import ResidentProber
from .stats import Stats


class Residence:
    """The blocks of a query, for its joins in this process.

    Parameters
    ----------
    scope : str
        One run of one query: names of blocks are unique within it.
    cache : BlockCache
        Of the process.
    device_stays : bool
        Whether the device stays open after this join, so that what is on it is of use later.
    """

    def __init__(self, scope: str, cache: BlockCache, *, device_stays: bool = True) -> None:
        self.scope = scope
        self.cache = cache
        self.device_stays = device_stays

    def keep(self, device: Device, blocks: Collection[str]) -> None:
        """Say which blocks the query may still read; others go, here and on the device."""
        self.cache.keep(self.scope, blocks)
        if device.keeps_windows:
            device.keep_windows(self.scope, blocks)

    @contextmanager
    def prober(
        self, evaluation: Evaluation, device: Device, stats: Stats, **options: Any
    ) -> Iterator[ResidentProber]:
        """A prober; parameters as for :class:`~penstock.host.execute.probe.Prober`."""

        def make() -> ResidentProber:
            return ResidentProber(self.scope, evaluation, device, stats, **options)

        if not self.device_stays:
            with closing(make()) as prober:
                yield prober
            return
        # The device is part of the prober, so it lives, and its number is nobody else's.
        key: Hashable = (
            id(device),
            evaluation.form.window,
            evaluation.form.form,
            evaluation.modes,
            options.get("pruning"),
        )
        with self.cache.prober(self.scope, key, make) as prober:
            prober.stats = stats
            yield prober
