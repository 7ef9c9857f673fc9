"""What is done with rows beside a running query, a table at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from penstock.around.parts import Relational
from penstock.plan.lookup import LookupPlan

from ..device.base import Device
from ..join.lookup.base import LookupOptions, RelationJoin
from ..join.lookup.opening import open_lookup
from ..relation.border import Relation
from .engine import RelationalEngine


class RowStep(Protocol):
    """Makes rows of rows; one that fails has done nothing, and can be tried again."""

    def __call__(self, rows: pa.Table) -> pa.Table: ...

    def close(self) -> None: ...


class Computed:
    """Rows of a query of one table.

    Parameters
    ----------
    engine : RelationalEngine
        Shared by the steps of a stream, which closes it.
    part : Relational
    """

    def __init__(self, engine: RelationalEngine, part: Relational) -> None:
        self._engine, self._part = engine, part

    def __call__(self, rows: pa.Table) -> pa.Table:
        return self._engine.run(self._part.text, {self._part.reads[0]: rows})

    def close(self) -> None:
        """There is nothing to close."""


class LookedUp:
    """Rows with those of a relation that match them, all of one version of it.

    Parameters
    ----------
    plan : LookupPlan
    schema : Schema
        Of the rows.
    relation : Relation
        Closed with the step.
    devices : sequence of Device
    options : LookupOptions
    close_devices : bool
        Whether the devices are closed with it, too.
    """

    def __init__(
        self,
        plan: LookupPlan,
        schema: pa.Schema,
        relation: Relation,
        devices: Sequence[Device],
        options: LookupOptions,
        *,
        close_devices: bool,
    ) -> None:
        plan.require_per_row()
        self._plan, self._schema = plan, schema
        self._relation, self._devices = relation, devices
        self._options = replace(options, ordered=True)
        self._close_devices = close_devices
        self._lock = threading.Lock()
        self._join: RelationJoin | None = self._opened()

    def _opened(self) -> RelationJoin:
        return open_lookup(self._plan, self._schema, self._relation, self._devices, self._options)

    def __call__(self, rows: pa.Table) -> pa.Table:
        with self._lock:
            join, self._join = self._join or self._opened(), None
            found = []
            for batch in rows.combine_chunks().to_batches():
                found += join.push(batch)
            found += join.finish()
            self._join = join  # one that failed has rows that nobody waits for
            return pa.Table.from_batches(found, join.schema)

    def close(self) -> None:
        with closing(self._relation):
            for device in self._devices if self._close_devices else ():
                device.close()
