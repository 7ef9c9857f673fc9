"""What a forwarded row costs: a node is asked over its socket, and directly."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from bench.lookup.nodes_model import NetworkCosts
from bench.lookup.scale import Data
from penstock.host.lookup.nodes.messages import HASH_BYTES, KeyRequest
from penstock.host.lookup.nodes.node_service import LookupNode
from penstock.host.lookup.nodes.peers import Caller, Peer
from penstock.host.relation import Version, open_relation
from penstock.host.relation.folder.reading import file_store
from penstock.host.wire.address import Address

#: Keys of small and of large requests; their rows are in memory.
_FEW, _MANY = 100, 4_000
_TIMES, _ROUNDS = 10, 5
#: Keys of requests whose rows are read: about those of a batch for one of 4 nodes, and for one
#: node. A small request reads fewer pages at once, so that they are no neighbours.
_SMALL, _LARGE = 1_150, 4_600
#: Pages that keys are taken of.
_PAGES = 50_000


def network_costs(data: Data, columns: tuple[str, ...], memory_bytes: int) -> NetworkCosts:
    """Measure what it costs to ask another node for rows, in CPU seconds of both sides.

    Parameters
    ----------
    data : Data
    columns : tuple of str
        Of the relation.
    memory_bytes : int
        Of the node.
    """
    place = str(data.relation)
    with tempfile.TemporaryDirectory(prefix="pen") as folder:
        relation = open_relation(place)
        version = relation.version()
        address = Address.parsed(f"unix://{Path(folder)}/node")
        with closing(
            LookupNode(relation, file_store(place), "a", address, memory_bytes=memory_bytes)
        ) as node:
            caller = Caller("bench", relation.id, place, relation.schema, is_node=True)
            peer = Peer(caller, "a", str(address))
            known = _keys(version, columns)
            kept = known[:_MANY]
            found = {}
            for count in (_FEW, _MANY):
                hashes = kept[:: len(kept) // count][:count]
                request = KeyRequest(version.number, 0, columns, hashes)
                asked = _cpu(lambda one=request: peer.begin(one).answer())
                alone = _cpu(lambda one=hashes: node.answers.groups(version.number, columns, one))
                found[count] = asked - alone
            rows, _ = peer.begin(KeyRequest(version.number, 0, columns, kept)).answer()
            peer.close()
            # A request to each node is an answer of each node, most of whose keys are read.
            random = np.random.default_rng(1)

            def read(count: int) -> float:
                def work() -> None:
                    some = np.sort(random.choice(known, count, replace=False))
                    node.answers.groups(version.number, columns, some)

                return _cpu(work)

            small, large = read(_SMALL), read(_LARGE)
    row_s = max(0.0, (found[_MANY] - found[_FEW]) / (_MANY - _FEW))
    answer_s = max(0.0, small - _SMALL * (large - small) / (_LARGE - _SMALL))
    size = sum(map(len, rows.message(0)[1])) / len(kept)
    return NetworkCosts(
        row_s=row_s,
        byte_s=0.0,
        sent_bytes=HASH_BYTES,
        answer_bytes=size,
        message_s=max(0.0, found[_FEW] - _FEW * row_s) + answer_s,
    )


def _keys(version: Version, columns: tuple[str, ...]) -> np.ndarray:
    """A key of each of many pages, from all over the relation; hashes, ascending."""
    pages = np.unique(np.linspace(0, len(version.index.first) - 1, _PAGES).astype(np.int64))
    found = []
    for some in np.array_split(pages, -(-len(pages) // _MANY)):
        rows = version.read(some, columns)
        found.append(rows.hashes[rows.starts[:-1]])
    return np.unique(np.concatenate(found))


def _cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this process: median of some rounds."""
    work()
    found = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(_TIMES):
            work()
        found.append((time.process_time() - began) / _TIMES)
    return float(np.median(found))
