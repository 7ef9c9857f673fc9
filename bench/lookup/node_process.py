"""A stream and a node in one process: ``python -m bench.lookup.node_process``, told by lines.

It answers each line of its input, a JSON object, by one of its output: ``{"make": n}`` makes as
many batches of calls of its own, ``{"join": true}`` joins them, and ``{"counts": true}`` says what
it has done so far.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock
from penstock.errors import ProcessError
from penstock.host.lookup.nodes.node_service import LookupNode
from penstock.host.relation import open_relation
from penstock.host.relation.folder.reading import file_store
from penstock.host.wire.address import Address
from penstock.sim.workloads import Calls


class Member:
    """A node, and a stream that asks nodes.

    Parameters
    ----------
    options : Namespace
        As the command line has them.
    """

    def __init__(self, options: argparse.Namespace, stack: ExitStack) -> None:
        place = str(options.relation)
        self._node = LookupNode(
            open_relation(place),
            file_store(place),
            options.name,
            Address.parsed(options.address),
            memory_bytes=options.node_memory,
        )
        stack.callback(self._node.close)
        self._work = Calls(
            seconds=1e6, rate=1e6, subscribers=options.subscribers, seed=options.seed,
            exponent=options.exponent,
        )  # fmt: skip
        self._calls = self._work.batches("calls", rows=options.batch)
        self._memory, self._place, self._stack = options.memory, place, stack
        self._stream: Any = None
        self._made: list[pa.RecordBatch] = []

    def answer(self, told: dict[str, Any]) -> dict[str, Any]:
        """Do what a line says."""
        if "make" in told:
            self._made = [next(self._calls) for _ in range(told["make"])]
            return {"made": len(self._made)}
        return self._join() if "join" in told else self._counts()

    def _join(self) -> dict[str, Any]:
        """Join the calls, each batch answered before the next one."""
        if self._stream is None:
            table = penstock.relation(self._place, nodes=True)
            self._stream = self._stack.enter_context(
                penstock.stream(
                    self._work.query(),
                    {"calls": self._work.schemas["calls"], "subscribers": table},
                    flow=penstock.Flow(memory_bytes=self._memory),
                )
            )
        began, rows = time.monotonic(), 0
        for batch in self._made:
            self._stream.push("calls", batch)
            self._stream.flush()
            rows += self._stream.poll().num_rows
        ended = time.monotonic()
        if rows != sum(batch.num_rows for batch in self._made):
            raise ProcessError(f"{rows} rows for {len(self._made)} batches; run the tests")
        return {"began": began, "ended": ended}

    def _counts(self) -> dict[str, Any]:
        """What was done so far."""
        forwarded, own = self._node.forwarding.counts, self._node.answers.counts
        found = {
            "cpu": time.process_time(),
            "own": forwarded.owned,
            "hot": forwarded.hot,
            "forwarded": forwarded.forwarded,
            "instead": forwarded.instead,
            "node_keys": own.keys,
            "node_hits": own.hits,
            "pages": own.pages,
            "node_cached": self._node.answers.cached,
        }
        if self._stream is not None:
            join = self._stream.report().lookup
            found |= {"hits": join.hits, "sought": join.sought, "cached": join.cached}
        return found


def _say(found: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Answer lines until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("relation", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--subscribers", type=int, required=True)
    parser.add_argument("--memory", type=int, required=True, help="of the join")
    parser.add_argument("--node-memory", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True, help="rows")
    parser.add_argument("--exponent", type=float, default=1.0)
    options = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with ExitStack() as stack:
        member = Member(options, stack)
        _say({"ready": True})
        for line in sys.stdin:
            _say(member.answer(json.loads(line)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
