"""Kills nodes and clients of a relation at random moments, and sees that no row is lost or doubled.

``python -m tests.host.lookup.nodes.chaos --kills 60`` (``make chaos`` runs it, too). Three nodes
and two clients run as processes, and are started again when they end. Meanwhile the relation is
updated, and nodes are added and drained. A client writes the answers of each batch to a file of its
own, and goes on at the first batch that has none. Each row tells the version that wrote it. A
device server is killed as often. Files of a user lie beside the relation's and beside the sockets,
and must stay as they are.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock
from penstock.errors import DeviceError
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.lookup.nodes.ring import Node
from penstock.host.relation import RelationOptions, build, open_relation
from tests.host.lookup.nodes.kit import set_ring
from tests.kit.foreign import ForeignFiles

ROOT = Path(__file__).resolve().parents[4]
KEYS, BATCH = 20_000, 4_000
#: Keys from here on are in no version.
SOUGHT = KEYS * 6 // 5
QUERY = "SELECT s.row, s.k, r.since, r.text FROM s LEFT JOIN r ON s.k = r.id"
SCHEMA = pa.schema([("row", pa.int64()), ("k", pa.int64())])
#: Seconds from one batch of a client to the next, so that checking does not take the most time.
_PACE_S = 0.02
#: Seconds for a client to go on after something was killed.
PATIENCE_S = 120.0
#: Seconds between versions of the relation.
_UPDATE_S = 0.4
_STOP = "stop"
#: Name of the device server, and its command without its own arguments.
_SERVER = "server"
_SERVE = ("-c", "from penstock.cli.main import run; run()", "serve")
#: What the device server answers.
_PAIRS = "SELECT a.x AS a, b.x AS b FROM a JOIN b ON a.x < b.x"


def rows_since(keys: np.ndarray, since: int) -> pa.Table:
    """Rows of the relation as a version wrote them."""
    text = pc.binary_join_element_wise(pa.array(keys).cast(pa.string()), str(since), "/")
    return pa.table({"id": keys, "since": np.full(len(keys), since), "text": text})


def changed_in(version: int) -> np.ndarray:
    """Keys that a version writes anew."""
    return np.random.default_rng(version).choice(KEYS, 300, replace=False)


def batch_of(client: int, number: int) -> pa.RecordBatch:
    """Rows of a stream: some keys come often, some are nowhere."""
    random = np.random.default_rng((client, number))
    keys = np.minimum(random.zipf(1.2, BATCH) * 7919 % SOUGHT, SOUGHT - 1)
    rows = np.arange(number * BATCH, (number + 1) * BATCH)
    return pa.record_batch([rows, keys], schema=SCHEMA)


def run_client(location: str, folder: Path, client: int) -> None:
    """Answer batches from the first one on that has no file, until there is a file to stop."""
    table = penstock.relation(location, nodes=True)
    flow = penstock.Flow(memory_bytes=2 << 20)
    number = len(list(folder.glob("*.arrow")))
    pace = threading.Event()
    with penstock.stream(QUERY, {"s": SCHEMA, "r": table}, flow=flow) as stream:
        while not Path(folder.parent, _STOP).exists():
            stream.push("s", batch_of(client, number))
            stream.flush()
            lookup = stream.report().lookup
            assert lookup is not None
            told = {"version": str(lookup.version), "asked": str(sum(lookup.nodes.values()))}
            rows = stream.poll().replace_schema_metadata(told)
            written = folder / f".{number}"
            with pa.ipc.new_file(str(written), rows.schema) as sink:
                sink.write_table(rows)
            written.rename(folder / f"{number}.arrow")
            number += 1
            pace.wait(_PACE_S)


@dataclass
class Processes:
    """Processes by name, which are started again when they are killed."""

    commands: dict[str, list[str]] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    logs: Path = Path()

    def start(self, name: str, command: Sequence[str]) -> None:
        self.commands[name] = [*command]
        with (self.logs / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, *command], stdout=log, stderr=log, cwd=ROOT
            )

    def kill(self, name: str) -> None:
        one = self.running[name]
        assert one.poll() is None, f"{name} ended by itself: see {self.logs / name}.log"
        one.kill()
        one.wait(PATIENCE_S)
        self.start(name, self.commands[name])

    def end(self, name: str) -> None:
        """End a process as a service manager does."""
        one = self.running.pop(name)
        one.send_signal(signal.SIGTERM)
        # It may have been killed just now, and heed no signal yet.
        ended = one.wait(PATIENCE_S)
        assert ended in (0, -signal.SIGTERM), f"{name} failed: see {self.logs / name}.log"

    def close(self) -> None:
        for one in self.running.values():
            one.kill()
            one.wait(PATIENCE_S)


@dataclass
class NodeChaos:
    """Nodes and clients of one relation, and what becomes of them.

    Parameters
    ----------
    folder : Path
        Empty; its path is short, as those of Unix sockets must be.
    seed : int
        Of what is killed and when.
    clients, nodes : int
        How many run; of nodes, at first.
    serves : bool
        Whether a device server is killed as often, too.
    """

    folder: Path
    seed: int = 1
    clients: int = 2
    nodes: int = 3
    serves: bool = True
    killed: Counter[str] = field(default_factory=Counter)
    changes: int = 0
    foreign: ForeignFiles = field(default_factory=ForeignFiles)

    def __post_init__(self) -> None:
        self.location = str(self.folder / "r.rel")
        options = RelationOptions(key=("id",), page_bytes=4096)
        build(rows_since(np.arange(KEYS), 1), self.location, options).close()
        self._random = Random(self.seed)
        self.processes = Processes(logs=self.folder)
        self._nodes = [Node(name, f"unix://{self.folder / name}") for name in "abcdefgh"]
        self._nodes = self._nodes[: self.nodes + 1]
        self._ring = self._nodes[: self.nodes]
        set_ring(self.location, self._ring)
        self._old_socket = self.folder / f"{_SERVER}.old"
        with socket.socket(socket.AF_UNIX) as old:
            old.bind(str(self._old_socket))
        for folder in (".", "r.rel", "r.rel/versions", "r.rel/data", "r.rel/holds"):
            self.foreign.put(self.folder / folder, *(f"{name}.bak" for name in "abcd"))
        self._over = threading.Event()
        self._updates: set[int] = set()
        self._failed: BaseException | None = None

    def run(self, kills: int) -> None:
        """Kill so many processes while the others go on, and the device server as often."""
        if self.serves:
            address = f"unix://{self.folder / _SERVER}"
            self.processes.start(_SERVER, [*_SERVE, "--listen", address, "--threads", "1"])
        for node in self._ring:
            self._start_node(node)
        for client in range(self.clients):
            (self.folder / str(client)).mkdir()
            command = ["-m", "tests.host.lookup.nodes.chaos", "--client", str(client)]
            self.processes.start(f"client {client}", [*command, "--folder", str(self.folder)])
        updates = threading.Thread(target=self._update)
        updates.start()
        try:
            self._await_progress()
            for kill in range(kills):
                if kill % 5 == 2:
                    self._change_ring()
                self._over.wait(self._random.random() / 4)
                name = self._random.choice(sorted({*self.processes.running} - {_SERVER}))
                for victim in (name, _SERVER) if self.serves else (name,):
                    self.killed[victim.partition(" ")[0]] += 1
                    self.processes.kill(victim)
                self._await_progress()
                if (
                    self.serves and self._random.random() < 0.5
                ):  # else it may be killed before it listens
                    self._ask_server()
                self.foreign.require_untouched()
            if self.serves:
                self._ask_server()
                self.processes.end(_SERVER)
            (self.folder / _STOP).touch()
            for client in range(self.clients):
                process = self.processes.running.pop(f"client {client}")
                assert process.wait(PATIENCE_S) == 0, f"a client failed: see {self.folder}"
        finally:
            self._over.set()
            updates.join(PATIENCE_S)
            self.processes.close()
        if self._failed is not None:
            raise self._failed

    def _start_node(self, node: Node) -> None:
        options = ["--node", node.name, "--listen", node.address, "--memory", "4M"]
        command = [*_SERVE, "--relation", self.location, *options]
        self.processes.start(f"node {node.name}", command)

    def _ask_server(self) -> None:
        """Wait until the device server answers, and check its rows."""
        rows = pa.table({"x": np.arange(60)})
        tables, time_columns = {"a": rows, "b": rows}, {"a": "x", "b": "x"}
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with RemoteDevice(f"unix://{self.folder / _SERVER}") as device:
                    pairs = penstock.sql(_PAIRS, tables, time=time_columns, rows=60, device=device)
                break
            except DeviceError:
                assert time.monotonic() < deadline, f"no server: see {self.folder / _SERVER}.log"
                self._over.wait(0.02)
        found = sorted(zip(*pairs.to_pydict().values(), strict=True))
        assert found == [(a, b) for a in range(60) for b in range(a + 1, 60)]

    def _change_ring(self) -> None:
        """Drain a node, and stop it; or start one, and add it."""
        self.changes += 1
        if len(self._ring) == len(self._nodes):
            gone = self._random.choice(self._ring)
            self._ring = [node for node in self._ring if node is not gone]
            set_ring(self.location, self._ring)
            self.processes.end(f"node {gone.name}")
        else:
            new = next(node for node in self._nodes if node not in self._ring)
            self._start_node(new)
            self._ring = [*self._ring, new]
            set_ring(self.location, self._ring)

    def _update(self) -> None:
        """Write versions until all is over."""
        try:
            with closing(open_relation(self.location)) as relation:
                while not self._over.wait(_UPDATE_S):
                    version = relation.newest() + 1
                    self._updates.add(version)  # others are compactions
                    relation.update(rows_since(changed_in(version), version))
        except BaseException as error:
            self._failed = error

    def _await_progress(self) -> None:
        """Wait until each client has answered two more batches, or its process has ended."""
        before = [self.batches(client) for client in range(self.clients)]
        deadline = time.monotonic() + PATIENCE_S
        while any(self.batches(client) < before[client] + 2 for client in range(self.clients)):
            assert time.monotonic() < deadline, f"no progress; see the logs in {self.folder}"
            for name, process in self.processes.running.items():
                said = (self.folder / f"{name}.log").read_text()[-2000:]
                assert process.poll() is None, f"{name} ended: {said}"
            self._over.wait(0.02)

    def batches(self, client: int) -> int:
        """Batches that a client has answered."""
        return sum(name.endswith(".arrow") for name in os.listdir(self.folder / str(client)))

    def check(self) -> dict[str, int]:
        """Check that each batch has all its rows once, of one version; counts for people."""
        self.foreign.require_untouched()
        assert stat.S_ISSOCK(self._old_socket.lstat().st_mode)
        newest = open_relation(self.location).newest()
        since = np.ones((newest + 1, SOUGHT), np.int64)
        since[:, KEYS:] = 0
        for version in range(2, newest + 1):
            since[version] = since[version - 1]
            if version in self._updates:
                since[version, changed_in(version)] = version
        found: Counter[str] = Counter(kills=sum(self.killed.values()), versions=newest)
        for client in range(self.clients):
            for number in range(self.batches(client)):
                with pa.OSFile(str(self.folder / str(client) / f"{number}.arrow")) as file:
                    rows = pa.ipc.open_file(file).read_all()
                told = rows.schema.metadata
                given = batch_of(client, number)
                rows = rows.sort_by("row")
                assert rows["row"].to_numpy().tolist() == given["row"].to_numpy().tolist()
                keys = rows["k"].to_numpy()
                assert (keys == given["k"].to_numpy()).all()
                expected = since[int(told[b"version"]), keys]
                assert (pc.fill_null(rows["since"], 0).to_numpy() == expected).all()
                text = pc.binary_join_element_wise(
                    rows["k"].cast(pa.string()), rows["since"].cast(pa.string()), "/"
                )
                assert rows["text"].equals(text)
                found["rows"] += len(rows)
                found["batches"] += 1
                found["asked"] = max(found["asked"], int(told[b"asked"]))
        return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--client", type=int)
    asked = parser.parse_args()
    if asked.client is not None:
        run_client(str(asked.folder / "r.rel"), asked.folder / str(asked.client), asked.client)
        return
    with tempfile.TemporaryDirectory(prefix="pen") as folder:
        chaos = NodeChaos(Path(folder), asked.seed)
        chaos.run(asked.kills)
        sys.stdout.write(
            f"{chaos.check()} {dict(chaos.killed)} {chaos.changes} changes of the ring\n"
        )


if __name__ == "__main__":
    main()
