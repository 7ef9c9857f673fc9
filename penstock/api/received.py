"""Tables, devices and workers that callers pass, checked and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike, fspath
from typing import Any

import pyarrow as pa

from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.join.lookup.relation_source import RelationTable
from penstock.host.relation.folder.row_batches import BATCH_ROWS
from penstock.host.routing.base import WORKER_CELLS
from penstock.host.rows.files import CSV, read_batches, read_schema, read_table
from penstock.host.rows.formats import CsvFormat
from penstock.host.rows.received import arrow_table, received_schema, received_table

from .. import arguments
from ..errors import UsageError

#: A table: Arrow data, a path, or anything with the Arrow C stream interface (pandas and Polars
#: frames, DuckDB relations).
TableLike = pa.Table | pa.RecordBatch | str | PathLike | Any

#: A worker leads one cell of keys at least.
_WORKERS = partial(arguments.whole, least=1, most=WORKER_CELLS)


def check_devices(device: Any) -> None:
    """Refuse anything but the name of a device, or one or more open devices.

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


#: Devices that join: the name of one, open ones, or a function that opens one when it is needed.
Devices = str | Device | Sequence[Device] | Callable[[], AbstractContextManager[Device]]


@contextmanager
def using(devices: Devices, *, ends: bool = False) -> Iterator[Device | Sequence[Device]]:
    """Yield open devices; close at the end the devices that are opened here.

    Parameters
    ----------
    ends : bool
        Whether they join tables: the CPU then interprets few pairs rather than to compile first.
    """
    if ends and devices == "cpu":
        devices = partial(open_device, "cpu", interprets=True)
    if isinstance(devices, Device | Sequence) and not isinstance(devices, str):
        yield devices
        return
    with open_device(devices) if isinstance(devices, str) else devices() as opened:
        yield opened


@dataclass(frozen=True)
class TableFiles:
    """A table in files; only the columns that a query needs are read.

    Parameters
    ----------
    path : str
        A file, a folder of files, or a pattern.
    csv : CsvFormat
        Of its files where they are CSV.
    """

    path: str
    csv: CsvFormat = CSV

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, read without the rows where the format allows it.

        Raises
        ------
        FileError
        """
        return received_schema(read_schema(self.path, self.csv))

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the table, or some of its columns.

        Raises
        ------
        FileError
        """
        return received_table(read_table(self.path, columns, self.csv))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Read the table batch by batch, in little memory.

        Raises
        ------
        FileError
        """
        for batch in read_batches(self.path, BATCH_ROWS, self.csv)[1]:
            yield from received_table(pa.Table.from_batches([batch])).to_batches()


def as_table(name: str, table: TableLike) -> pa.Table | TableFiles:
    """Take a table that a caller passes.

    Raises
    ------
    UsageError
        It cannot be read as a table.
    """
    if isinstance(table, str | PathLike):
        return TableFiles(fspath(table))
    return received_table(arrow_table(table, f"table {name}", also="a path, "))


def as_tables(
    tables: Mapping[str, TableLike | RelationTable],
) -> dict[str, pa.Table | TableFiles | RelationTable]:
    """Take the tables of a query by name, as :func:`as_table` does; relations stay as they are."""
    return {
        name: one if isinstance(one, RelationTable) else as_table(name, one)
        for name, one in tables.items()
    }


def check_workers(workers: Any) -> None:
    """Refuse anything but a number of workers; None is for none.

    Raises
    ------
    UsageError
    """
    arguments.optional(_WORKERS)("workers", workers)
