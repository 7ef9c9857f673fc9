"""Tables, devices and workers as callers give them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from typing import Any

import pyarrow as pa

from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.rows.files import read_table
from penstock.host.rows.received import arrow_table, received_table
from penstock.host.state import PARTITIONS

from .. import arguments
from ..errors import UsageError

#: A table: Arrow data, a path, or anything with the Arrow C stream interface (pandas and Polars
#: frames, DuckDB relations).
TableLike = pa.Table | pa.RecordBatch | str | PathLike | Any

#: A worker leads one partition of the keys at least.
_WORKERS = partial(arguments.whole, least=1, most=PARTITIONS)


def check_devices(device: Any) -> None:
    """Refuse what is neither the name of a device nor one or more open ones.

    Raises
    ------
    UsageError
    """
    if isinstance(device, Sequence) and not isinstance(device, str):
        for one in device:
            arguments.instance(Device, "an open device")("each of device", one)
    elif not isinstance(device, str | Device):
        raise arguments.refuse("device", "the name of a device, or an open one", device)


def device_name(device: Any) -> str:
    """Return the name of the device that each worker opens.

    Raises
    ------
    UsageError
        It is an open one, which processes cannot share.
    """
    if not isinstance(device, str):
        raise UsageError(
            "each worker opens a device of its own; give its name, as in device='cpu', not an "
            "open one"
        )
    return device


@contextmanager
def using(device: str | Device | Sequence[Device]) -> Iterator[Device | Sequence[Device]]:
    """Give open devices; one that is given by name is closed at the end."""
    if not isinstance(device, str):
        yield device
        return
    with open_device(device) as opened:
        yield opened


def as_table(name: str, table: TableLike) -> pa.Table:
    """Read a table that a caller gave.

    Raises
    ------
    UsageError
        It cannot be read as a table.
    """
    if isinstance(table, str | PathLike):
        return received_table(read_table(table))
    return received_table(arrow_table(table, f"table {name}", also="a path, "))


def check_workers(workers: Any) -> None:
    """Refuse what is no number of workers; None is for none.

    Raises
    ------
    UsageError
    """
    arguments.optional(_WORKERS)("workers", workers)
