"""``penstock relation nodes``: which nodes answer the lookups in a relation."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.host.relation import open_relation
from penstock.host.relation.folder.reading import file_store
from penstock.host.relation.nodes.peers import Caller
from penstock.host.relation.nodes.record import change_ring, newest_ring, read_ring
from penstock.host.relation.nodes.ring import Node, Ring
from penstock.host.relation.nodes.roll_call import NodeState, call_roll
from penstock.host.wire.address import Address, read_token

from ..errors import UsageError
from .options import grouped, option
from .terminal import many, results, say, say_json, table

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
        say(f"{files.root}: record {ring.number}, {many(len(ring), 'node')}")


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
