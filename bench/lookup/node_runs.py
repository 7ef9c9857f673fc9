"""Processes that are a stream and a node each, run together."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.lookup.scale import Data
from penstock.errors import ProcessError
from penstock.host.lookup.nodes.record import change_ring
from penstock.host.lookup.nodes.ring import Node, Ring
from penstock.host.relation.folder.reading import file_store

#: Rows that are answered together: of 100 k rows, one batch of each of 8 nodes.
BATCH = 12_500
#: Seconds for a process to end once its input has.
_END_S = 30


@dataclass
class Run:
    """What processes did together.

    Parameters
    ----------
    rows : int
    cpu_s : float
        Of all processes.
    wall_s : float
        From the first one's beginning to the last one's end.
    counts : dict
        Sums over the processes.
    """

    rows: int
    cpu_s: float
    wall_s: float
    counts: dict[str, float] = field(default_factory=dict)

    @property
    def work_s(self) -> float:
        """CPU seconds of a row."""
        return self.cpu_s / self.rows

    @property
    def rate(self) -> float:
        """Rows per second by the clock."""
        return self.rows / self.wall_s


class Members:
    """Running processes."""

    def __init__(self, processes: list[subprocess.Popen[str]], batch: int) -> None:
        self._processes, self._batch = processes, batch
        self._read()  # they are ready

    def tell(self, **told: Any) -> list[dict[str, Any]]:
        """Tell all the same; their answers, when all have answered."""
        for one in self._processes:
            assert one.stdin is not None
            one.stdin.write(json.dumps(told) + "\n")
            one.stdin.flush()
        return self._read()

    def _read(self) -> list[dict[str, Any]]:
        found = []
        for one in self._processes:
            line = one.stdout.readline() if one.stdout else ""
            if not line:
                raise ProcessError(
                    f"a process of nodes has ended with status {one.wait(_END_S)}; its message is "
                    "above"
                )
            found.append(json.loads(line))
        return found

    def run(self, batches: int) -> Run:
        """Let each process join some batches, all at the same time."""
        self.tell(make=batches)
        before = self.tell(counts=True)
        times = self.tell(join=True)
        after = self.tell(counts=True)
        counts = {
            name: sum(a[name] for a in after) - sum(b.get(name, 0) for b in before)
            for name in after[0]
        }
        for name in ("cached", "node_cached"):
            counts[name] = sum(a[name] for a in after) / len(after)
        wall = max(t["ended"] for t in times) - min(t["began"] for t in times)
        return Run(batches * self._batch * len(self._processes), counts.pop("cpu"), wall, counts)


@contextmanager
def members(
    data: Data,
    nodes: int,
    memory_bytes: int,
    node_bytes: int,
    *,
    batch: int = BATCH,
    exponent: float = 1.0,
) -> Iterator[Members]:
    """Processes of the nodes of a ring.

    Parameters
    ----------
    data : Data
    nodes : int
    memory_bytes, node_bytes : int
        Of the join, and of the node, in each process.
    batch : int
        Rows that are answered together.
    exponent : float
        Of the calls.
    """
    place = str(data.relation)
    with tempfile.TemporaryDirectory(prefix="pen") as folder, ExitStack() as stack:
        ring = [Node(f"node-{k}", f"unix://{Path(folder)}/{k}") for k in range(nodes)]
        change_ring(file_store(place), lambda _: Ring(0, ring))
        processes = []
        for number, node in enumerate(ring):
            command = [
                sys.executable, "-m", "bench.lookup.node_process", place, "--name", node.name,
                "--address", node.address, "--memory", str(memory_bytes), "--node-memory",
                str(node_bytes), "--subscribers", str(data.rows), "--seed", str(number + 1),
                "--batch", str(batch), "--exponent", str(exponent),
            ]  # fmt: skip
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            stack.callback(_end, process)
            processes.append(process)
        try:
            yield Members(processes, batch)
        finally:
            change_ring(file_store(place), lambda _: Ring(0, ()))


def _end(process: subprocess.Popen[str]) -> None:
    """End a process: its input ends."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_END_S)
