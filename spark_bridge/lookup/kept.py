"""Joins with relations that a Python worker keeps between tasks, with what they have cached."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Hashable

from penstock.host.join.lookup.base import RelationJoin


class KeptJoins:
    """Joins that no task uses, the longest unused first."""

    def __init__(self) -> None:
        self._joins: OrderedDict[Hashable, RelationJoin] = OrderedDict()
        self._is_frozen = False

    def take(self, key: Hashable) -> RelationJoin | None:
        """A join that was kept, for one task; None if there is none."""
        return self._joins.pop(key, None)

    def keep(self, key: Hashable, join: RelationJoin, most_bytes: int) -> None:
        """Keep a join that has answered all of its rows.

        Parameters
        ----------
        key : hashable
        join : RelationJoin
        most_bytes : int
            That all kept joins may use; the longest unused ones go.
        """
        self._joins.pop(key, None)
        self._joins[key] = join
        while sum(one.options.memory_bytes for one in self._joins.values()) > most_bytes:
            _, oldest = self._joins.popitem(last=False)
            oldest.relation.close()
            self._is_frozen = False
        if not self._is_frozen:
            self._is_frozen = True
            _freeze()


def _freeze() -> None:
    """Spare the garbage collector what is alive now.

    Spark's workers collect garbage after each task, which looks at all modules and takes longer
    than the join of 50,000 rows. A join that goes must not be among what is frozen.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


#: Those of this process. Spark reuses it for many tasks.
KEPT = KeptJoins()
