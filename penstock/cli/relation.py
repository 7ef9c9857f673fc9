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
from .options import group, grouped, option
from .terminal import count, errors, results, say, table

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
        """As calls take them."""
        return RelationOptions(
            key=_names(self.key),
            cluster=_names(self.cluster),
            unique=self.unique,
            page_bytes=self.page_kib << 10,
        )


def _many(number: int, thing: str) -> str:
    return f"{count(number)} {thing}" + ("" if number == 1 else "s")


def _names(texts: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for text in texts or () for name in text.split(",") if name.strip())


@app.command("build")
@grouped
def build_relation(
    file: Annotated[str, typer.Argument(help="Parquet (a file or a folder), CSV or Arrow.")],
    *,
    out: Annotated[
        str, typer.Option("--out", "-o", help="A new folder, or s3://, gs://, abfs://.")
    ],
    stored: StoredArguments,
    memory: Memory = "256MB",
) -> None:
    """Store a table, so that streams can be joined with it."""
    with errors.status("storing", spinner="line"):
        made = build(file, out, stored.options, memory_bytes=values.size(memory, "memory"))
    _summarise(made)
    made.close()


@app.command("update")
@grouped
def update(
    location: Location,
    *,
    upserts: Annotated[
        str | None, typer.Option(help="File whose rows replace all rows with their keys.")
    ] = None,
    deletes: Annotated[
        str | None, typer.Option(help="File with keys, or rows, whose rows are removed.")
    ] = None,
    append: Annotated[str | None, typer.Option(help="File whose rows are added.")] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Merge all updates into new pages, now.")
    ] = False,
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
            found = opened.info()
            lines = _table_lines(found)
        else:
            assert isinstance(opened, FolderRelation)
            found = opened.info()
            lines = _lines(found)
    shown = table("", "")
    for name, text in lines:
        shown.add_row(name, text)
    results.print(shown)
    columns = table("column", "type", "", right=())
    roles = {
        **dict.fromkeys(found.get("cluster", ()), "cluster"),
        **dict.fromkeys(found["key"], "key"),
    }
    for name, dtype in found["columns"].items():
        columns.add_row(name, dtype, roles.get(name, ""))
    results.print()
    results.print(columns)


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    at = datetime.fromtimestamp(found["created"], UTC)
    order = f"clustered by {', '.join(found['cluster'])}"
    if not found["cluster"]:
        order = f"by the hash of {', '.join(found['key'])}"
    lines = [
        ("relation", found["name"]),
        ("version", f"{found['version']} of {at:%Y-%m-%d %H:%M:%S} UTC"),
        ("versions", f"{found['versions']}, from {found['oldest_version']} on"),
        ("rows", count(found["rows"])),
        ("pages", f"{count(found['pages'])} of {found['page_bytes'] >> 10} KiB, {order}"),
        ("size", _size(found["bytes"])),
        ("index", f"{_size(found['index_bytes'])} of memory"),
    ]
    if found["key"]:
        lines.insert(4, ("NULL keys", count(found["null_keys"])))
    if found["deltas"]:
        size = _size(found["delta_bytes"])
        lines.append(("updates", f"{found['deltas']} ({size}), not merged yet"))
    if found["unique"]:
        lines.append(("unique", "no two rows share a key"))
    if found["pins"]:
        lines.append(("pinned", f"{_many(found['pins'], 'version')}, by queries"))
    return lines


def _table_lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Of a table in PostgreSQL."""
    key = ", ".join(found["key"])
    how = "by scanning only, since it has no key"
    if key:
        index = "an index" if found["is_indexed"] else "no index found: each read may take long"
        how = f"by {key} ({index})"
    age = "of one batch only"
    if found["max_age_s"]:
        age = f"{found['max_age_s']:g} s old at most"
    return [
        ("relation", found["name"]),
        ("table", f"{found['table']}, in a database of {found['encoding']}"),
        ("rows", f"about {count(found['rows'])}"),
        ("size", f"about {_size(found['bytes'])}"),
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
    found = opened.info() if not damaged else {}
    opened.close()
    if damaged:
        raise FileError(
            f"{location} is damaged: {_many(damaged, 'problem')}; restore it from a backup, or "
            "build it anew"
        )
    say(
        f"{found['name']}: all is as it was written: {_many(found['rows'], 'row')}, "
        f"{_many(found['pages'], 'page')}, {_many(found['versions'], 'version')}"
    )


@app.command("vacuum")
@grouped
def vacuum(
    location: Location,
    *,
    keep: Annotated[int, typer.Option(help="Newest versions that stay.", min=1)] = 1,
    keep_for: Annotated[
        str, typer.Option(help="Versions stay that were the newest within: 1h, 30m.")
    ] = "1h",
    pins: Annotated[
        list[str] | None, typer.Option(help="Another place of pins, as queries have it; repeat.")
    ] = None,
    drop_pins: Annotated[
        str | None, typer.Option(help="Remove pins that are older, of queries that ended: 7d.")
    ] = None,
) -> None:
    """Remove old versions. Those that queries have pinned stay."""
    opened = open_folder(location, "keeps no versions here")
    removed = opened.vacuum(
        keep=keep,
        keep_s=_seconds(keep_for, "keep-for"),
        pins=pins or (),
        pins_s=None if drop_pins is None else _seconds(drop_pins, "drop-pins"),
    )
    opened.close()
    say(
        f"removed {_many(removed.versions, 'version')}, {_many(removed.files, 'file')}, "
        f"{_size(removed.bytes)}; kept {_many(len(opened.numbers()), 'version')}"
    )


def _seconds(text: str, name: str) -> float:
    found = values.span(text, name)
    if found is None or isinstance(found, int):
        raise UsageError(f"--{name} takes a duration with its unit, such as 1h, not {text!r}")
    return found.total_seconds()


def _summarise(relation: FolderRelation) -> None:
    found = relation.info()
    keyless = f", {count(found['null_keys'])} of them without a key" if found["null_keys"] else ""
    say(
        f"{found['name']}: version {found['version']}, {_many(found['rows'], 'row')}{keyless}, "
        f"{_many(found['pages'], 'page')}, {_size(found['bytes'])}"
    )
