"""The figures of lookups on several nodes, one row each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from bench.lookup.scale import Data, Scale
from bench.rows import Row
from penstock.errors import UsageError
from penstock.host.lookup.hot import HotKeys
from penstock.host.relation.key_hash import KeyHash
from penstock.host.relation.nodes.ring import Node, Ring
from penstock.sim.workloads import Calls

#: Nodes of the rings, keys, and rings of each size.
_NODES, _KEYS, _SEEDS = (2, 3, 4, 8, 16, 31), 400_000, 4
#: Nodes, exponent, rings and calls that arrive at each node, of the rows per node.
_SPREAD_NODES, _STEEP, _RINGS, _CALLS_EACH = 8, 1.2, 20, 20_000
#: Calls that are looked up together at a node.
_TOGETHER = 2_000


class NodesReport:
    """Measures all figures of nodes.

    Parameters
    ----------
    data : Data
    scale : Scale
    only : sequence of str or None
        Steps by name; None for all.
    on_row : callable
        Takes each row as it is known.
    """

    def __init__(
        self,
        data: Data,
        scale: Scale,
        only: Sequence[str] | None,
        on_row: Callable[[Row], None],
    ) -> None:
        self.data, self.scale, self._only, self._on_row = data, scale, only, on_row
        self.rows: list[Row] = []

    def measure(self) -> None:
        """Take the steps."""
        steps = {"ring": self._ring, "spread": self._spread}
        for name in self._only or steps:
            if name not in steps:
                raise UsageError(f"there is no step {name}; there are {', '.join(steps)}")
            steps[name]()
            gc.collect()

    def _add(
        self, what: str, measured: str, target: str = "", met: bool | None = None, **values
    ) -> None:
        row = Row(what, measured, target, met, values=values)
        self.rows.append(row)
        self._on_row(row)

    def _ring(self) -> None:
        """Keys that move to a node that is added, and keys per node."""
        keys = KeyHash().of_rows(pa.table({"k": np.arange(_KEYS)}), ("k",), "keys")
        moved, elsewhere, most = [], 0, []
        for seed in range(_SEEDS):
            for count in _NODES:
                ring = _ring_of(seed, count)
                more = ring.add(Node("new", "tcp://new:1"))
                numbers = np.array([more.index_of(node.name) for node in ring.nodes])
                after = more.owner_of(keys)
                changed = numbers[ring.owner_of(keys)] != after
                moved.append(float(changed.sum() / (len(keys) / (count + 1))))
                elsewhere += int((after[changed] != more.index_of("new")).sum())
                held = np.bincount(after)
                most.append(float(held.max() / held.mean()))
        self._add(
            "ring of 2 to 32 nodes: keys that move, beside K/(N+1)",
            f"median {np.median(moved):.2f}x, worst {max(moved):.2f}x; {elsewhere} to another node "
            "than the new one",
            "<= 1.1x, 0", max(moved) <= 1.1 and not elsewhere, moved=moved,
        )  # fmt: skip
        self._add(
            "the same: keys of the fullest node beside the mean",
            f"median {np.median(most):.2f}x, worst {max(most):.2f}x",
            "<= 1.15x", max(most) <= 1.15, most=most,
        )  # fmt: skip

    def _spread(self) -> None:
        """Rows that the busiest node answers, beside the mean."""
        ours, printed = np.array([self._busiest(seed) for seed in range(_RINGS)]).T
        median = float(np.median(ours))
        self._add(
            f"rows per node, {_SPREAD_NODES} nodes, exponent {_STEEP}: busiest beside the mean",
            f"median {median:.2f}x, p90 {np.quantile(ours, 0.9):.2f}x, worst {max(ours):.2f}x; as "
            f"printed median {np.median(printed):.2f}x, p90 {np.quantile(printed, 0.9):.2f}x",
            "<= 1.2x; printed 2.3x", median <= 1.2, ours=ours.tolist(), printed=printed.tolist(),
        )  # fmt: skip

    def _busiest(self, seed: int) -> tuple[float, float]:
        """With hot keys answered where they arrive once half of the calls have come; as printed."""
        nodes = _SPREAD_NODES
        calls = Calls(
            subscribers=self.data.rows, exponent=_STEEP, rate=1e6, seconds=1.0, seed=seed + 1
        )
        batch = next(calls.batches("calls", rows=nodes * _CALLS_EACH))
        keys = KeyHash().of_rows(batch.select(["subscriber"]), ("subscriber",), "calls")
        ring = _ring_of(seed, nodes)
        owners = ring.owner_of(keys).reshape(nodes, -1)
        answers = np.zeros(nodes)
        for node, (part, owned) in enumerate(zip(keys.reshape(nodes, -1), owners, strict=True)):
            hot = HotKeys(nodes)
            for first in range(0, len(part), _TOGETHER):
                some = part[first : first + _TOGETHER]
                hot.note(some)
                if first >= len(part) // 2:
                    at = np.where(hot.of(some, nodes), node, owned[first : first + _TOGETHER])
                    answers += np.bincount(at, minlength=nodes)
        printed = np.bincount(owners.ravel(), minlength=nodes)
        return answers.max() / answers.mean(), printed.max() / printed.mean()


def _ring_of(seed: int, count: int) -> Ring:
    return Ring(1, [Node(f"node-{seed}-{k}", f"tcp://node-{k}:1") for k in range(count)])
