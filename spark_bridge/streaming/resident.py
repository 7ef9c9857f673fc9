"""The blocks that a Python worker keeps prepared between micro-batches."""

from __future__ import annotations

from penstock.host.device.base import Device
from penstock.host.execute.residence import Residence
from penstock.host.execute.resident_cache import BlockCache

from .spec import JoinSpec

#: Of this process, which Spark reuses between tasks.
_cache = BlockCache(0)


def block_cache() -> BlockCache:
    """The process's cache."""
    return _cache


def residence(spec: JoinSpec, scope: str, device: Device) -> Residence | None:
    """Where blocks of a query are kept for the task that calls; None if they are not.

    Parameters
    ----------
    spec : JoinSpec
    scope : str
        One checkpoint of the query: names of blocks are unique within it.
    device : Device
        Of the task.
    """
    if spec.resident_bytes is None:
        return None
    # Inside, since it is the worker's own that is meant: Spark copies what a closure refers to.
    from ..devices import stays_open
    from .resident import block_cache

    cache = block_cache()
    cache.most_bytes = spec.resident_bytes
    return Residence(scope, cache, device_stays=stays_open(device))
