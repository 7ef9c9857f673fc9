"""``penstock serve``: lends devices to other processes, or answers their lookups."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.host.device.registry import open_device, parse_device
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.owner import DeviceOwner
from penstock.host.execute.promptness import run_in_short_slices
from penstock.host.wire.address import Address, check_listen, read_token

from ..errors import UsageError
from . import inputs, values
from .options import application, group, option
from .page_options import PageArguments
from .stopping import GRACE_S, stopped, stops
from .terminal import say

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from penstock.host.devices.remote.server.service import DeviceServer
    from penstock.host.lookup.nodes.node_service import LookupNode

#: Seconds between switches of Python threads. At the default of 5 ms a task's answer would wait for
#: busy threads; at this one it takes 0.3 ms.
_SWITCH_S = 50e-6


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
    arguments: NodeArguments,
    listen: str,
    token_file: Path | None,
    metrics_port: int | None,
    page: PageArguments,
) -> None:
    """Answer lookups in a relation until interrupted."""
    # Imported here, since other commands do not need it.
    from penstock.host.lookup.nodes.metrics import NodeCollector
    from penstock.host.lookup.nodes.node_service import MEMORY_BYTES, LookupNode
    from penstock.host.lookup.nodes.ring import Node
    from penstock.host.relation import FolderRelation
    from penstock.host.relation.folder.reading import file_store

    assert arguments.relation is not None
    assert arguments.node is not None
    address = Address.parsed(listen)
    Node(arguments.node, str(address))  # for its errors
    memory = MEMORY_BYTES if arguments.memory is None else values.size(arguments.memory, "memory")
    token = None if token_file is None else read_token(token_file)
    files = file_store(arguments.relation)
    with stops() as wait:
        node = LookupNode(
            FolderRelation(files), files, arguments.node, address, token=token, memory_bytes=memory
        )

        def lines() -> Iterator[str]:
            version, ring = node.answers.version.number, node.known_ring.ring()
            yield f"serving version {version} of {node.relation.name} at {node.address}"
            if ring is None or all(one.name != node.name for one in ring.nodes):
                yield (
                    f"{node.name} is no node of the relation yet: penstock relation nodes add "
                    f"{arguments.relation} {node.name} --address {node.address}"
                )

        _serve(node, NodeCollector(node), metrics_port, page, lines(), wait)


def _serve(
    server: DeviceServer | LookupNode,
    collector: Collector,
    metrics_port: int | None,
    page: PageArguments,
    lines: Iterable[str],
    wait: Callable[[], None],
) -> None:
    """Serve metrics, say lines about a server, wait, and close it."""
    from penstock.host.metrics.exporter import serve_collector

    with ExitStack() as cleanup:
        try:
            if metrics_port is not None:
                metrics = serve_collector(collector, metrics_port)
                cleanup.callback(metrics.close)
                say(f"metrics at http://127.0.0.1:{metrics.port}/metrics")
            if (place := page.place()) is not None:
                from penstock.host.page.page import show_collector

                shown = show_collector(collector, *place, name=str(server.address))
                cleanup.callback(shown.close)
                say(page.line_of(shown))
            for line in lines:
                say(line)
            wait()
        finally:
            over = server.close(GRACE_S)
    stopped(over)


@group
class LimitArguments:
    """Limits of the resources that clients take of this machine."""

    memory_mib: int | None = option("Windows of all clients; default: half of the memory.")
    client_memory_mib: int | None = option("Windows of one client; default: half of that.")
    traffic_mib: int | None = option(
        "Messages and results of all clients; default: a quarter of the memory."
    )
    compile_s: float = option(
        "Seconds for the compilation of one program.", default=ServerLimits.compile_s
    )

    def limits(self) -> ServerLimits:
        """Convert the limits to bytes."""

        def in_bytes(mib: int | None) -> int | None:
            return None if mib is None else mib << 20

        return ServerLimits(
            memory_bytes=in_bytes(self.memory_mib),
            client_memory_bytes=in_bytes(self.client_memory_mib),
            traffic_bytes=in_bytes(self.traffic_mib),
            compile_s=self.compile_s,
        )


@application
def app(
    *,
    listen: str = option("unix:///PATH, or tcp://HOST:PORT, which needs a token.", required=True),
    device: list[str] | None = option(
        "See `penstock devices`; repeat. With options as in board?address=192.168.2.99. "
        "Default: cpu."
    ),
    threads: int | None = option("Cores of the cpu device."),
    units: int | None = option("Join units of simulated devices."),
    token_file: Path | None = option("File with a token that clients must show."),
    limits: LimitArguments,
    relation_node: NodeArguments,
    metrics_port: int | None = option("Serve metrics for Prometheus; 0 takes a free port."),
    page: PageArguments,
) -> None:
    """Own devices, or rows of a relation, and work for other processes until interrupted."""
    chosen = (device, threads, units) != (None, None, None) or limits != LimitArguments()
    relation_node.check(chosen)
    if relation_node.relation is not None:
        return serve_relation(relation_node, listen, token_file, metrics_port, page)
    # Imported here, since other commands do not need it.
    from penstock.host.devices.remote.server.metrics import ServerCollector
    from penstock.host.devices.remote.server.service import DeviceServer

    named = [parse_device(text) for text in device or ["cpu"]]
    names = [name for name, _ in named]
    if inputs.REMOTE in names or len(set(names)) < len(names):
        raise UsageError("--device takes different devices of this machine, not a server's")
    address = Address.parsed(listen)
    token = None if token_file is None else read_token(token_file)
    check_listen(address, token)
    sys.setswitchinterval(_SWITCH_S)
    run_in_short_slices()
    with stops() as wait, ExitStack() as cleanup:
        owners = {}
        for name, extra in named:
            general = {"threads": threads} if name == "cpu" else {"units": units}
            shared = {key: value for key, value in general.items() if value is not None}
            owners[name] = DeviceOwner(open_device(name, **shared, **extra), limits.limits())
            cleanup.callback(owners[name].stop)
        server = DeviceServer(owners, address, token=token, limits=limits.limits())
        cleanup.pop_all()
        line = f"serving {', '.join(names)} at {server.address}"
        _serve(server, ServerCollector(server), metrics_port, page, [line], wait)
    return None
