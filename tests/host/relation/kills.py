"""A program that changes a relation until it is killed, and what must be there then."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from penstock.host.relation import RelationOptions, build, open_relation
from penstock.host.relation.folder.pins import Pins
from penstock.host.relation.folder.reading import file_store
from tests.host.relation.model import Model

KEYS = 3000
OPTIONS = RelationOptions(key=("id",), page_bytes=4096)
#: So little that what is built is sorted on disk.
MEMORY_BYTES = 1 << 20
#: How often each comes.
STEPS = {"update": 4, "append": 3, "compact": 2, "vacuum": 2, "build": 1, "pin": 2}


def table(keys: np.ndarray, name: str) -> pa.Table:
    return pa.table({"id": keys, "name": [f"{name} {key} {'-' * 60}" for key in keys.tolist()]})


FIRST = table(np.arange(KEYS), "first")


@dataclass(frozen=True)
class Step:
    """A change of a relation, always the same for one number."""

    number: int

    @property
    def _random(self) -> np.random.Generator:
        return np.random.default_rng(self.number)

    @property
    def kind(self) -> str:
        weights = np.array([*STEPS.values()]) / sum(STEPS.values())
        return str(self._random.choice([*STEPS], p=weights))

    @property
    def _keys(self) -> np.ndarray:
        return self._random.choice(2 * KEYS, 400, replace=False)

    @property
    def upserts(self) -> pa.Table:
        return table(self._keys[:300], f"step {self.number}")

    @property
    def deletes(self) -> pa.Table:
        return pa.table({"id": self._keys[300:]})

    def built(self, location: str) -> str:
        """Where it builds another relation."""
        return f"{location}-{self.number}"

    def do(self, location: str) -> int:
        """Do it, and return the newest version; of a pin, the pinned one."""
        if self.kind == "build":
            build(FIRST, self.built(location), OPTIONS, memory_bytes=MEMORY_BYTES).close()
        relation = open_relation(location)
        match self.kind:
            case "update":
                relation.update(self.upserts, self.deletes)
            case "append":
                relation.append(self.upserts.slice(0, 20))
            case "compact":
                relation.compact(memory_bytes=MEMORY_BYTES)
            case "vacuum":
                relation.vacuum(keep_s=0, orphans_s=-1)
            case "pin":
                number = relation.pin("query", self.number)
                Pins(file_store(location)).remove_before("query", self.number)
                return number
        return relation.newest()

    def apply(self, model: Model) -> Model:
        """What the rows are afterwards."""
        after = Model(FIRST, ("id",))
        after.versions = [model.newest]
        if self.kind == "update":
            after.update(self.upserts, self.deletes)
        elif self.kind == "append":
            after.append(self.upserts.slice(0, 20))
        return after


def warm_up() -> None:
    """Have everything compiled and loaded."""
    with TemporaryDirectory() as folder:
        location = f"{folder}/r"
        build(FIRST, location, OPTIONS, memory_bytes=MEMORY_BYTES).close()
        kinds = dict.fromkeys(STEPS)
        for number in count():
            step = Step(number)
            if step.kind in kinds:
                del kinds[step.kind]
                step.do(location)
            if not kinds:
                return


def run(location: str, first: int, says: Connection) -> None:
    """Do steps for ever, and say of each when it begins, and its version when it is done."""
    for number in count(first):
        says.send((number, None))
        says.send((number, Step(number).do(location)))
