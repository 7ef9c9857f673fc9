"""``penstock relation``: builds, changes and checks the tables that streams are joined with."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from penstock.host.relation import (
    FolderRelation,
    PostgresRelation,
    RelationOptions,
    build,
    open_folder,
    open_relation,
)

from ..errors import FileError, UsageError
from . import relation_nodes, values
from .options import argument, group, grouped, option
from .terminal import count, errors, many, results, say, table

app = typer.Typer(
    help="Build, change and check tables that streams are joined with.",
    no_args_is_help=True,
    add_completion=False,
)

Location = Annotated[str, typer.Argument(help="A folder, or s3://, gs://, abfs://.")]
Memory = Annotated[str, typer.Option(help="What sorting may use: 256MB, 2GB.")]


@app.callback()
def command() -> None:
    """Build, change and check tables that streams are joined with."""


app.add_typer(relation_nodes.app, name="nodes")


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


@app.command("build")
@grouped
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


@app.command("update")
@grouped
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


@app.command("info")
@grouped
def info(location: Location) -> None:
    """Show columns, versions and sizes."""
    opened = open_relation(location)
    with closing(opened):
        if isinstance(opened, PostgresRelation):
            facts = opened.info()
            lines = _table_lines(facts)
        else:
            assert isinstance(opened, FolderRelation)
            facts = opened.info()
            lines = _lines(facts)
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
    """Return the lines about a table in PostgreSQL."""
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


@app.command("check")
@grouped
def check(location: Location) -> None:
    """Read everything, and list what is damaged."""
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


@app.command("vacuum")
@grouped
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
