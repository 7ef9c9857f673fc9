"""``penstock relation nodes``: which nodes answer the lookups in a relation."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from penstock.host.relation import open_relation
from penstock.host.relation.folder.reading import file_store
from penstock.host.relation.nodes.record import change_ring, newest_ring, read_ring
from penstock.host.relation.nodes.ring import Node, Ring
from penstock.host.wire.address import Address

from ..errors import UsageError
from .options import grouped
from .terminal import results, say, table

app = typer.Typer(
    help="Say which nodes answer the lookups in a relation.",
    no_args_is_help=True,
    add_completion=False,
)

Location = Annotated[str, typer.Argument(help="A folder, or s3://, gs://, abfs://.")]
Name = Annotated[str, typer.Argument(help="Of the node: letters, digits, dots, hyphens.")]


@app.callback()
def command() -> None:
    """Say which nodes answer the lookups in a relation."""


@app.command("add")
@grouped
def add(
    location: Location,
    name: Name,
    *,
    address: Annotated[
        str, typer.Option(help="Where it listens: tcp://HOST:PORT or unix:///PATH.")
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="It may be there already, at another address.")
    ] = False,
) -> None:
    """Give a node its part of the keys, while streams run. Start it first."""
    parsed = Address.parsed(address)
    if parsed.path is None and not parsed.port:
        raise UsageError(f"nobody can connect to {address}: give the port that {name} listens on")
    node = Node(name, str(parsed))
    _change(location, lambda ring: ring.add(node, replace=replace))


@app.command("drain")
@grouped
def drain(location: Location, name: Name) -> None:
    """Take the keys from a node, while streams run. Stop it when nobody asks it any more.

    Without nodes, whoever looks rows up reads the relation itself.
    """
    _change(location, lambda ring: ring.drain(name))


def _change(location: str, change: Any) -> None:
    _check(location)
    files = file_store(location)
    before = newest_ring(files)
    ring = change_ring(files, lambda ring: change(Ring(0, ()) if ring is None else ring))
    if ring.number == before:
        say(f"nothing changes: record {before} has it so already")
    else:
        say(f"{files.root}: record {ring.number}, {_many(ring)}")


def _check(location: str) -> None:
    """Check that there is a relation that this release reads.

    Raises
    ------
    FileError
    """
    open_relation(location).close()


@app.command("list")
@grouped
def show(
    location: Location,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the nodes, where they are, and the share of the keys that each of them owns."""
    _check(location)
    files = file_store(location)
    number = newest_ring(files)
    ring = read_ring(files, number) if number else None
    rows = [] if ring is None else _rows(ring)
    if as_json:
        typer.echo(json.dumps({"relation": files.root, "number": number, "nodes": rows}, indent=2))
        return
    if ring is None:
        say(f"{files.root} has no nodes: whoever looks rows up reads it")
        return
    say(f"{files.root}: record {ring.number}, {_many(ring)}")
    shown = table("node", "address", "share", right=(2,))
    for row in rows:
        shown.add_row(row["name"], row["address"], f"{row['share']:.1%}")
    results.print(shown)


def _rows(ring: Ring) -> list[dict[str, Any]]:
    return [
        {"name": node.name, "address": node.address, "share": ring.share_of(k)}
        for k, node in enumerate(ring.nodes)
    ]


def _many(ring: Ring) -> str:
    return f"{len(ring)} node" + ("" if len(ring) == 1 else "s")
