"""``penstock serve --relation``: a lookup node."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from penstock.host.wire.address import Address, read_token

from ..errors import UsageError
from . import values
from .options import group, option
from .stopping import GRACE_S, stopped, stops
from .terminal import say


@group
class NodeArguments:
    """A relation whose keys are looked up here, in place of devices."""

    relation: str | None = option("Folder of a stored relation: answer lookups in it.")
    node: str | None = option("Name of this node among those of the relation.")
    memory: str | None = option("Memory of the node: 128MB.")

    def check(self, device_options: bool) -> None:
        """Refuse options that do not go together.

        Parameters
        ----------
        device_options : bool
            Whether options of devices are given.

        Raises
        ------
        UsageError
        """
        if self.relation is None and (self.node, self.memory) != (None, None):
            raise UsageError("--node and --memory are for --relation; add it, or leave them out")
        if self.relation is not None and device_options:
            raise UsageError(
                "--relation serves lookups, and --device, --threads, --units and limits in MiB are "
                "for devices; start a process for each"
            )
        if self.relation is not None and self.node is None:
            raise UsageError(
                "--relation needs --node NAME, as it is, or will be, in `penstock relation nodes "
                "list`"
            )


def serve_relation(
    asked: NodeArguments, listen: str, token_file: Path | None, metrics_port: int | None
) -> None:
    """Answer lookups in a relation until interrupted."""
    # Imported here, since other commands do not need it.
    from penstock.host.metrics.exporter import serve_collector
    from penstock.host.node.metrics import NodeCollector
    from penstock.host.node.service import MEMORY_BYTES, LookupNode
    from penstock.host.relation import FolderRelation
    from penstock.host.relation.folder.reading import file_store
    from penstock.host.relation.nodes.ring import Node

    assert asked.relation is not None
    assert asked.node is not None
    address = Address.parsed(listen)
    Node(asked.node, str(address))  # for its errors
    memory = MEMORY_BYTES if asked.memory is None else values.size(asked.memory, "memory")
    token = None if token_file is None else read_token(token_file)
    files = file_store(asked.relation)
    with stops() as wait, ExitStack() as cleanup:
        node = LookupNode(
            FolderRelation(files), files, asked.node, address, token=token, memory_bytes=memory
        )
        try:
            if metrics_port is not None:
                metrics = serve_collector(NodeCollector(node), metrics_port)
                cleanup.callback(metrics.close)
                say(f"metrics at http://127.0.0.1:{metrics.port}/metrics")
            version, ring = node.answers.version.number, node.known_ring.ring()
            say(f"serving version {version} of {node.relation.name} at {node.address}")
            if ring is None or all(one.name != node.name for one in ring.nodes):
                say(
                    f"{node.name} is no node of the relation yet: penstock relation nodes add "
                    f"{asked.relation} {node.name} --address {node.address}"
                )
            wait()
        finally:
            over = node.close(GRACE_S)
    stopped(over)
