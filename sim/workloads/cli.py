"""Command line of the workloads: writes streams as Parquet and queries as SQL, or prints these."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table

from penstock.errors import PenstockError, UsageError

from .attack import Attack
from .backbone import PAPER_NAMES, SHORT_NAMES, Backbone
from .call_records import Calls
from .city import City
from .cm import CM
from .nb7 import NB7
from .nb_joins import NB8, NB11
from .nexmark import Q7, Q8, Q11
from .ro import RO
from .workload import Workload
from .yahoo import Yahoo
from .ysb import YSB

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

#: Help of the options. They have the types and defaults of the workload's fields.
_SECONDS = {"seconds": "Length of the run in seconds of event time."}
_SEED = {"seed": "Same seed, same rows."}
_LAST = {"disorder_s": "Most seconds a row arrives after its time.", **_SEED}
_SKEW = "Zipf exponent; 0 is even."
_WINDOW = {"window_s": "Seconds of the query's windows."}
_ACTIVE = {"active": "Sellers whose rows come mixed with each other."}

#: Options that are not called as their field.
_NAMES = {"gps_rate": "--rate", "disorder_s": "--disorder", "names": "--short-names"}


#: Options of each command beside the workload's own.
_FIRST = tuple(
    Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[dtype, typer.Option(flag, help=text)],
    )
    for name, flag, dtype, default, text in (
        ("out", "--out", Path | None, None, "Folder to write to; made if missing."),
        ("sql", "--sql", bool, False, "Print the query, and what runs before it."),
        ("oracle", "--oracle", bool, False, "Print DuckDB's query of the same rows."),
    )
)


def _add(make: type[Workload], text: str, options: Mapping[str, str]) -> None:
    """Add a command that writes a workload.

    Parameters
    ----------
    make : type
    text : str
        Help of the command.
    options : mapping of str to str
        Fields that are options, and their help.
    """
    types = get_type_hints(make)
    defaults = {field.name: field.default for field in fields(make)}
    parameters = list(_FIRST)
    for name, described in options.items():
        is_flag = name == "names"
        option = typer.Option(
            *([_NAMES[name]] if name in _NAMES else []),
            help=described,
            callback=_address_names if is_flag else None,
        )
        annotation = Annotated[bool if is_flag else types[name], option]
        default = False if is_flag else defaults[name]
        parameters.append(
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )

    def command(*, out: Path | None, sql: bool, oracle: bool, **values: Any) -> None:
        workload = make(**values)
        if sql:
            _print_query(workload)
        if oracle:
            _print_oracle(workload)
        if out is not None:
            _write(workload, out)
        elif not sql and not oracle:
            raise UsageError("nothing to do: give --out FOLDER to write the streams, or --sql")

    command.__signature__ = Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    app.command(make.__name__.lower(), help=text)(command)


def _address_names(are_short: bool) -> tuple[str, str]:
    return SHORT_NAMES if are_short else PAPER_NAMES


_add(
    City,
    "Ride orders and vehicle positions in a city with hot spots.",
    {
        **_SECONDS,
        "gps_rate": "Positions per second.",
        "order_rate": "Orders per second.",
        "vehicles": "Vehicles that report.",
        "radius": "Half the city's side, 1e-5 degree.",
        **_LAST,
    },
)
_add(
    Backbone,
    "Packet headers at two points of a backbone.",
    {
        **_SECONDS,
        "rate": "Packets per second in r.",
        "ratio": "Packets in s for each in r.",
        "hosts": "Addresses in use.",
        "skew": _SKEW,
        "overlap": "Share of packets whose flow passes both points.",
        "names": "Name the addresses src and dst.",
        **_LAST,
    },
)
_add(
    Attack,
    "Packet headers at two sites while both are flooded.",
    {
        **_SECONDS,
        "rate": "Packets per second and site.",
        "ports": "Ports that other packets go to.",
        "skew": _SKEW,
        "share": "Share of packets that belong to the attack while it lasts.",
        "port": "The port under attack.",
        **_LAST,
    },
)
_add(
    Calls,
    "Call records and the table of subscribers that they look up.",
    {
        **_SECONDS,
        "rate": "Calls per second.",
        "subscribers": "Rows of the table.",
        "exponent": _SKEW,
        "absent": "Share of calls of numbers that are no subscriber's.",
        "drift": "Share of ranks that change hands at a time.",
        "drift_s": "Seconds from change to change.",
        **_SEED,
    },
)
_add(
    YSB,
    "What becomes of advertisements, of ten million keys (Slash's YSB).",
    {
        **_SECONDS,
        "rate": "Events per second.",
        "ads": "Advertisements, the keys.",
        "skew": _SKEW,
        **_WINDOW,
        **_LAST,
    },
)
_add(
    Yahoo,
    "What becomes of advertisements, and the campaigns they belong to (Yahoo's own YSB).",
    {**_SECONDS, "rate": "Events per second.", **_LAST},
)
_add(
    CM,
    "Events of tasks on a cluster's machines (Slash's CM).",
    {
        **_SECONDS,
        "rate": "Events per second.",
        "jobs": "Jobs that tasks belong to.",
        "skew": _SKEW,
        **_WINDOW,
        **_LAST,
    },
)
_add(
    NB7,
    "Bids at auctions, most of them at few (Slash's NB7).",
    {
        **_SECONDS,
        "rate": "Bids per second.",
        "auctions": "Auctions that are bid at.",
        "shape": "Of the Pareto distribution; 1.16: a fifth of the auctions has 80 % of the bids.",
        **_WINDOW,
        **_LAST,
    },
)
_add(
    NB8,
    "Auctions and their sellers, in tumbling windows (Slash's NB8).",
    {**_SECONDS, "rate": "Auctions per second.", **_ACTIVE, **_WINDOW, **_LAST},
)
_add(
    NB11,
    "Bids and the sellers they go to, in session windows (Slash's NB11).",
    {
        **_SECONDS,
        "rate": "Bids per second.",
        **_ACTIVE,
        "gap_s": "Most seconds between rows of a session.",
        **_LAST,
    },
)
_add(
    RO,
    "Keys that are counted (Slash's RO).",
    {
        **_SECONDS,
        "rate": "Rows per second of event time.",
        "keys": "Different keys.",
        "skew": _SKEW,
        **_LAST,
    },
)
for _make, _text in (
    (Q7, "Bids, of which the highest are sought (NEXMark's query 7)."),
    (Q8, "People and auctions: who sells soon after coming (NEXMark's query 8)."),
    (Q11, "Bids in sessions of their bidders (NEXMark's query 11)."),
):
    _add(_make, _text, {**_SECONDS, "rate": "Events per second, of all kinds.", **_LAST})


def _write(workload: Workload, out: Path) -> None:
    files = workload.write(out)
    report = Table("stream", "rows", "MB", "file")
    for name, file in files.items():
        rows = pq.read_metadata(file).num_rows
        report.add_row(name, f"{rows:,}", f"{file.stat().st_size / 1e6:.2f}", str(file))
    console = Console()
    console.print(report)
    _print_query(workload)


def _print_query(workload: Workload) -> None:
    for name, text in workload.stages().items():
        _print(f"-- {name}\n{text};\n")
    _print(workload.query())


def _print_oracle(workload: Workload) -> None:
    text = workload.oracle()
    if not text:
        name = type(workload).__name__.lower()
        raise UsageError(f"{name} has no query for DuckDB; leave --oracle out, or see --sql")
    _print(text)


def _print(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def run() -> None:
    """Entry point: an error of Penstock becomes one line and its exit code."""
    try:
        app()
    except PenstockError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
