"""The figures of lookups on several nodes, one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from bench.lookup.network_costs import network_costs
from bench.lookup.node_runs import BATCH, Run, members
from bench.lookup.nodes_model import forwarded_share, predict_nodes
from bench.lookup.scale import BATCH_ROWS, MB, QUICK
from bench.lookup.steps import StepReport
from penstock.host.lookup.algorithm import Algorithm
from penstock.host.lookup.calibrate import calibrate
from penstock.host.lookup.hot import HotKeys
from penstock.host.lookup.model import Shape
from penstock.host.lookup.nodes.ring import Node, Ring
from penstock.host.relation import open_relation
from penstock.host.relation.key_hash import KeyHash
from penstock.sim.workloads import Calls

#: Nodes of the rings, keys, and rings of each size.
_NODES, _KEYS, _SEEDS = (2, 3, 4, 8, 16, 31), 400_000, 4
#: Nodes, exponent, rings and calls that arrive at each node, of the rows per node.
_SPREAD_NODES, _STEEP, _RINGS, _CALLS_EACH = 8, 1.2, 20, 20_000
#: Calls that are looked up together at a node.
_TOGETHER = 2_000
#: Columns that the query asks for, and bytes of a call.
_COLUMNS, _CALL_BYTES = ("id", "plan", "name"), 28
#: Rows of all streams of figure 8, with how many runs each has (the paper: 5); nodes.
_SIZES, _FIGURE_NODES = {100_000: 5, 1_000_000: 1, 10_000_000: 1}, (4, 8)
#: The paper's rates over those of Eunomia, by nodes (figure 8).
_PAPER = {4: "1.29, 1.48, 1.65", 8: "1.15, 1.36, 1.50"}


@dataclass(frozen=True)
class Measured:
    """Runs of as many processes, by rows."""

    nodes: int
    by_rows: dict[int, list[Run]]

    def work_s(self, rows: int) -> float:
        """CPU seconds of a row: median of the runs."""
        return float(np.median([run.work_s for run in self.by_rows[rows]]))

    @property
    def last(self) -> Run:
        """The last run, whose caches are warmest."""
        return list(self.by_rows.values())[-1][-1]


class NodesReport(StepReport):
    """Measures all figures of nodes."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self._known: dict[int, Measured] = {}

    @property
    def _steps(self) -> Mapping[str, Callable[[], None]]:
        return {
            "ring": self._ring,
            "spread": self._spread,
            "two": self._two,
            "bytes": self._bytes,
            "figure8": self._figure_8,
            "postgres": self._postgres,
        }

    def _postgres(self) -> None:
        """A table in PostgreSQL beside questions that one writes by hand."""
        from bench.lookup import postgres

        scale = postgres.QUICK if self.scale is QUICK else postgres.FULL
        found = postgres.Report(scale, self._on_row)
        found.measure()
        self.rows += found.rows

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
                    at = np.where(hot.are_hot(some, nodes), node, owned[first : first + _TOGETHER])
                    answers += np.bincount(at, minlength=nodes)
        printed = np.bincount(owners.ravel(), minlength=nodes)
        return answers.max() / answers.mean(), printed.max() / printed.mean()

    @property
    def _is_quick(self) -> bool:
        return self.scale is QUICK

    @property
    def _sizes(self) -> dict[int, int]:
        sizes = dict(_SIZES)
        if self._is_quick:
            del sizes[10_000_000]
        return sizes

    @property
    def _memories(self) -> tuple[int, int]:
        """Of the join and of the node in each process."""
        return self.scale.memory_bytes // 2, self.scale.memory_bytes

    def _measured(self, nodes: int) -> Measured:
        """Runs of streams that ask nodes, once they are warm."""
        if nodes not in self._known:
            found: dict[int, list[Run]] = {}
            with members(self.data, nodes, *self._memories) as running:
                running.run(self.scale.warm)
                for rows, times in self._sizes.items():
                    each = max(1, rows // BATCH // nodes)
                    found[rows] = [running.run(each) for _ in range(times)]
            self._known[nodes] = Measured(nodes, found)
        return self._known[nodes]

    def _two(self) -> None:
        """Two processes, each a stream and a node, beside one."""
        one, two = (self._whole_batches(nodes) for nodes in (1, 2))
        by_cpu, wall = 2 * one.work_s / two.work_s, two.rate / one.rate
        self._add(
            "two processes, each a stream and a node, beside one",
            f"{by_cpu:.2f}x by CPU time of a row, {wall:.2f}x by the clock; "
            f"{one.work_s * 1e6:.1f} and {two.work_s * 1e6:.1f} us of a row",
            ">= 1.5x", by_cpu >= 1.5, by_cpu=by_cpu, wall=wall,
        )  # fmt: skip

    def _whole_batches(self, nodes: int) -> Run:
        """A run in batches as all other figures have them."""
        with members(self.data, nodes, *self._memories, batch=BATCH_ROWS) as running:
            running.run(self.scale.warm)
            return running.run(self.scale.rounds * self.scale.batches)

    def _bytes(self) -> None:
        """Bytes between nodes, beside those if every row were forwarded before a cache."""
        for nodes in (2, 4):
            run = self._measured(nodes).last
            p = (run.counts["hits"] + run.counts["hot"]) / run.rows
            each = self._network.sent_bytes + self._network.answer_bytes
            ours = run.counts["forwarded"] * each
            printed = forwarded_share(nodes) * run.rows * each
            ratio = ours / printed
            self._add(
                f"bytes between {nodes} nodes, beside every row forwarded first",
                f"{ratio:.2f} of {printed / run.rows:.0f} bytes a row; p {p:.2f}, 1 - p "
                f"{1 - p:.2f}: {ratio / (1 - p):.2f} of it",
                "<= 1.1 of 1 - p", ratio <= 1.1 * (1 - p), ratio=ratio, p=p,
            )  # fmt: skip

    def _figure_8(self) -> None:
        """Work of nodes beside the model, which knows that of one, and what a request costs."""
        one = self._measured(1)
        for nodes in _FIGURE_NODES:
            many = self._measured(nodes)
            for rows in self._sizes:
                wanted = one.work_s(rows) + self._model(nodes, one.last) - self._model(1, one.last)
                found = many.work_s(rows)
                off = found / wanted - 1
                self._add(
                    f"figure 8, {nodes} nodes, {rows:,} rows: work of a row",
                    f"{found * 1e6:.1f} us of CPU time, predicted {wanted * 1e6:.1f}: {off:+.0%}; "
                    f"{nodes * one.work_s(rows) / found:.1f}x the rate of one node",
                    "within 15 %", abs(off) <= 0.15, found=found, predicted=wanted,
                )  # fmt: skip
            self._add(f"the paper's ratios over Eunomia, {nodes} nodes", _PAPER[nodes])

    def _model(self, nodes: int, run: Run) -> float:
        """Predicted CPU seconds of a row, of processes whose caches hold as much as in this run."""
        version, kept = self._version, run.counts["cached"]
        shape = Shape(
            rows=version.rows,
            row_bytes=version.bytes / version.rows,
            page_bytes=version.bytes / len(version.index),
            stream_bytes=_CALL_BYTES,
            cached=kept + run.counts["node_cached"],
            waiting=BATCH,
            read_bytes=MB,
            batch=BATCH,
        )
        found = predict_nodes(
            Algorithm.AUTO, shape, self._costs, self._network, nodes, entrance=kept
        )
        return found.work_s

    @cached_property
    def _version(self):
        return open_relation(self.data.relation).version()

    @cached_property
    def _costs(self):
        return calibrate(self._version, list(_COLUMNS))

    @cached_property
    def _network(self):
        return network_costs(self.data, _COLUMNS, self._memories[1])


def _ring_of(seed: int, count: int) -> Ring:
    return Ring(1, [Node(f"node-{seed}-{k}", f"tcp://node-{k}:1") for k in range(count)])
