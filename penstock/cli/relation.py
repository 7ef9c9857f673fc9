"""``penstock relation``: builds, changes and checks tables that streams are joined with."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.host.lookup.nodes.peers import Caller
from penstock.host.lookup.nodes.record import change_ring, newest_ring, read_ring
from penstock.host.lookup.nodes.ring import Node, Ring
from penstock.host.lookup.nodes.roll_call import NodeState, call_roll
from penstock.host.relation import (
    FolderRelation,
    RelationOptions,
    ServerRelation,
    build,
    open_folder,
    open_relation,
)
from penstock.host.relation.folder.reading import file_store
from penstock.host.wire.address import Address, read_token

from ..errors import FileError, UsageError
from ..words import count, many
from . import values
from .options import Commands, argument, group, option
from .terminal import errors, results, say, say_json, table

app = Commands("Build, change and check tables that streams are joined with.")

Location = Annotated[str, typer.Argument(help="A folder, or s3://, gs://, abfs://.")]
Memory = Annotated[str, typer.Option(help="What sorting may use: 256MB, 2GB.")]


@group
class StoredArguments:
    """How a relation is stored."""

    key: list[str] | None = option(
        "Column by which rows are found, replaced and removed; repeat, or separate by commas."
    )
    cluster: list[str] | None = option(
        "Column by which pages are apart, for conditions other than = with the key; repeat, or "
        "separate by commas."
    )
    unique: bool = option("Refuse rows that share a key.", "--unique", default=False)
    page_kib: int = option("KiB of a page, which is what is read at once.", default=4, min=1)

    @property
    def options(self) -> RelationOptions:
        """The options as Python's calls take them."""
        return RelationOptions(
            key=_names(self.key),
            cluster=_names(self.cluster),
            unique=self.unique,
            page_bytes=self.page_kib << 10,
        )


def _names(texts: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for text in texts or () for name in text.split(",") if name.strip())


@app.grouped("build")
def build_relation(
    file: str = argument("Parquet (a file or a folder), CSV or Arrow."),
    *,
    out: str = option("A new folder, or s3://, gs://, abfs://.", "--out", "-o", required=True),
    stored: StoredArguments,
    memory: Memory = "256MB",
) -> None:
    """Store a table, so that streams can be joined with it."""
    with errors.status("storing", spinner="line"):
        relation = build(file, out, stored.options, memory_bytes=values.size(memory, "memory"))
    _summarise(relation)
    relation.close()


@app.grouped("update")
def update(
    location: Location,
    *,
    upserts: str | None = option("File whose rows replace all rows with their keys."),
    deletes: str | None = option("File with keys, or rows, whose rows are removed."),
    append: str | None = option("File whose rows are added."),
    compact: bool = option("Merge all updates into new pages, now.", "--compact", default=False),
    memory: Memory = "256MB",
) -> None:
    """Replace, remove or add rows: the next version. Queries that run go on with theirs."""
    if upserts is None and deletes is None and append is None and not compact:
        raise UsageError("give --upserts, --deletes, --append or --compact")
    if append is not None and (upserts is not None or deletes is not None):
        raise UsageError("--append adds a version of its own; call again for --upserts, --deletes")
    opened = open_folder(location, "is not updated here")
    before = opened.newest()
    if append is not None:
        opened.append(append, memory_bytes=values.size(memory, "memory"))
    elif upserts is not None or deletes is not None:
        opened.update(upserts, deletes, memory_bytes=values.size(memory, "memory"))
    if compact:
        opened.compact(memory_bytes=values.size(memory, "memory"))
    if opened.newest() == before:
        say(f"nothing changes: version {before} has it so already")
    else:
        _summarise(opened)
    opened.close()


@app.grouped("info")
def info(location: Location) -> None:
    """Show columns, versions and sizes."""
    opened = open_relation(location)
    with closing(opened):
        assert isinstance(opened, ServerRelation | FolderRelation)
        facts = opened.info()
        lines = _table_lines(facts) if isinstance(opened, ServerRelation) else _lines(facts)
    results.print(table("", "", rows=lines))
    roles = {
        **dict.fromkeys(facts.get("cluster", ()), "cluster"),
        **dict.fromkeys(facts["key"], "key"),
    }
    columns = ((name, dtype, roles.get(name, "")) for name, dtype in facts["columns"].items())
    results.print()
    results.print(table("column", "type", "", rows=columns))


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    at = datetime.fromtimestamp(facts["created"], UTC)
    order = f"clustered by {', '.join(facts['cluster'])}"
    if not facts["cluster"]:
        order = f"by the hash of {', '.join(facts['key'])}"
    lines = [
        ("relation", facts["name"]),
        ("version", f"{facts['version']} of {at:%Y-%m-%d %H:%M:%S} UTC"),
        ("versions", f"{facts['versions']}, from {facts['oldest_version']} on"),
        ("rows", count(facts["rows"])),
        ("pages", f"{count(facts['pages'])} of {facts['page_bytes'] >> 10} KiB, {order}"),
        ("size", _size(facts["bytes"])),
        ("index", f"{_size(facts['index_bytes'])} of memory"),
    ]
    if facts["key"]:
        lines.insert(4, ("NULL keys", count(facts["null_keys"])))
    if facts["deltas"]:
        size = _size(facts["delta_bytes"])
        lines.append(("updates", f"{facts['deltas']} ({size}), not merged yet"))
    if facts["unique"]:
        lines.append(("unique", "no two rows share a key"))
    if facts["pins"]:
        lines.append(("pinned", f"{many(facts['pins'], 'version')}, by queries"))
    return lines


def _table_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines about a table in a server."""
    key = ", ".join(facts["key"])
    how = "by scanning only, since it has no key"
    if key:
        index = "an index" if facts["is_indexed"] else "no index found: each read may take long"
        how = f"by {key} ({index})"
    age = "of one batch only"
    if facts["max_age_s"]:
        age = f"{facts['max_age_s']:g} s old at most"
    return [
        ("relation", facts["name"]),
        ("table", f"{facts['table']}, in a database of {facts['encoding']}"),
        ("rows", f"about {count(facts['rows'])}"),
        ("size", f"about {_size(facts['bytes'])}"),
        ("found", how),
        ("kept rows", age),
    ]


def _size(number: int) -> str:
    value, unit = float(number), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"


@app.grouped("check")
def check(location: Location) -> None:
    """Read all of a relation, and list the damage."""
    opened = open_folder(location, "cannot be checked here")
    damaged = 0
    with errors.status("reading", spinner="line"):
        for problem in opened.check():
            damaged += 1
            say(problem)
    facts = opened.info() if not damaged else {}
    opened.close()
    if damaged:
        raise FileError(
            f"{location} is damaged: {many(damaged, 'problem')}; restore it from a backup, or "
            "build it anew"
        )
    say(
        f"{facts['name']}: all is as it was written: {many(facts['rows'], 'row')}, "
        f"{many(facts['pages'], 'page')}, {many(facts['versions'], 'version')}"
    )


@app.grouped("vacuum")
def vacuum(
    location: Location,
    *,
    keep: int = option("Newest versions that stay.", default=1, min=1),
    keep_for: str = option("Versions stay that were the newest within: 1h, 30m.", default="1h"),
    pins: list[str] | None = option("Another place of pins, as queries have it; repeat."),
    drop_pins: str | None = option("Remove pins that are older, of queries that ended: 7d."),
) -> None:
    """Remove old versions. Those that queries have pinned stay."""
    opened = open_folder(location, "keeps no versions here")
    removed = opened.vacuum(
        keep=keep,
        keep_s=values.seconds(keep_for, "keep-for", "1h"),
        pins=pins or (),
        pins_s=None if drop_pins is None else values.seconds(drop_pins, "drop-pins", "1h"),
    )
    opened.close()
    say(
        f"removed {many(removed.versions, 'version')}, {many(removed.files, 'file')}, "
        f"{_size(removed.bytes)}; kept {many(len(opened.numbers()), 'version')}"
    )


def _summarise(relation: FolderRelation) -> None:
    facts = relation.info()
    keyless = f", {count(facts['null_keys'])} of them without a key" if facts["null_keys"] else ""
    say(
        f"{facts['name']}: version {facts['version']}, {many(facts['rows'], 'row')}{keyless}, "
        f"{many(facts['pages'], 'page')}, {_size(facts['bytes'])}"
    )


nodes = Commands("Say which nodes answer the lookups in a relation.")

Name = Annotated[str, typer.Argument(help="Of the node: letters, digits, dots, hyphens.")]


@nodes.grouped("add")
def add(
    location: Location,
    name: Name,
    *,
    address: str = option("Where it listens: tcp://HOST:PORT or unix:///PATH.", required=True),
    replace: bool = option(
        "It may be there already, at another address.", "--replace", default=False
    ),
) -> None:
    """Give a node its part of the keys, while streams run. Start it first."""
    parsed = Address.parsed(address)
    if parsed.path is None and not parsed.port:
        raise UsageError(f"nobody can connect to {address}: give the port that {name} listens on")
    node = Node(name, str(parsed))
    _change(location, lambda ring: ring.add(node, replace=replace))


@nodes.grouped("drain")
def drain(location: Location, name: Name) -> None:
    """Take the keys from a node, while streams run. Stop it when nobody asks it any more.

    Without nodes, whoever looks rows up reads the relation itself.
    """
    _change(location, lambda ring: ring.drain(name))


def _change(location: str, change: Any) -> None:
    open_relation(location).close()  # refuses a place without one
    files = file_store(location)
    before = newest_ring(files)
    ring = change_ring(files, lambda ring: change(Ring(0, ()) if ring is None else ring))
    if ring.number == before:
        say(f"nothing changes: record {before} has it so already")
    else:
        say(f"{files.root}: record {ring.number}, {many(len(ring), 'node')}")


@nodes.grouped("list")
def show(
    location: Location,
    *,
    token_file: Path | None = option("File with the token that the nodes want."),
    as_json: bool = option("Print JSON.", "--json", default=False),
) -> None:
    """Show the nodes, where they are, the share of the keys that each owns, and which answer.

    Each node is greeted, all at once; who does not answer within 2 seconds has timed out.
    """
    token = None if token_file is None else read_token(token_file)
    with closing(open_relation(location)) as relation:
        caller = Caller(
            "penstock relation nodes list",
            relation.id,
            relation.name,
            relation.schema,
            token=token,
        )
    files = file_store(location)
    number = newest_ring(files)
    ring = read_ring(files, number) if number else None
    rows = [] if ring is None else _rows(ring, call_roll(caller, ring))
    if as_json:
        say_json({"relation": files.root, "number": number, "nodes": rows})
        return
    if ring is None:
        say(f"{files.root} has no nodes: whoever looks rows up reads it")
        return
    answering = sum(row["answers"] for row in rows)
    nodes = many(len(ring), "node")
    say(f"{files.root}: record {ring.number}, {nodes}, {answering} of {len(ring)} answering")
    lines = (
        (
            row["name"],
            row["address"],
            f"{row['share']:.1%}",
            "" if row["record"] is None else str(row["record"]),
            _now(row),
        )
        for row in rows
    )
    results.print(table("node", "address", "share", "record", "now", rows=lines, right=(2, 3)))


def _rows(ring: Ring, states: list[NodeState]) -> list[dict[str, Any]]:
    return [
        {
            "name": node.name,
            "address": node.address,
            "share": ring.share_of(k),
            "answers": state.answers,
            "called": state.called,
            "record": state.ring,
            "reason": state.reason,
            "message": state.message,
        }
        for k, (node, state) in enumerate(zip(ring.nodes, states, strict=True))
    ]


def _now(row: dict[str, Any]) -> str:
    """Return a node's state: whether it answers, as which node, or why not."""
    if not row["answers"]:
        return f"does not answer: {row['reason']}"
    return "answers" if row["called"] == row["name"] else f"answers as {row['called']}"


app.add_typer(nodes, name="nodes")
