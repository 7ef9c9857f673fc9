"""Command line of the workloads: writes each stream as Parquet, and the query as SQL."""

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

from penstock.errors import PenstockError

from .ads import Ads
from .attack import Attack
from .backbone import PAPER_NAMES, SHORT_NAMES, Backbone
from .base import Workload
from .bids import Bids
from .calls import Calls
from .city import City

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

#: Help of the options. They have the types and defaults of the workload's fields.
_SECONDS = {"seconds": "Length of the run in seconds of event time."}
_SEED = {"seed": "Same seed, same rows."}
_LAST = {"disorder_s": "Most seconds a row arrives after its time.", **_SEED}
_SKEW = "Zipf exponent; 0 is even."

#: Options that are not called as their field.
_NAMES = {"gps_rate": "--rate", "disorder_s": "--disorder", "names": "--short-names"}


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
    out = Annotated[Path, typer.Option(help="Folder to write to; made if missing.")]
    parameters = [Parameter("out", Parameter.KEYWORD_ONLY, annotation=out)]
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

    def command(*, out: Path, **values: Any) -> None:
        _write(make(**values), out)

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
    Ads,
    "What becomes of advertisements, and the campaigns they belong to (YSB).",
    {
        **_SECONDS,
        "rate": "Events per second.",
        "ads": "Advertisements; 1000 are the original benchmark's.",
        **_LAST,
    },
)
_add(
    Bids,
    "Bids at auctions, most of them at few (NB7).",
    {
        **_SECONDS,
        "rate": "Bids per second.",
        "auctions": "Auctions that are bid at.",
        "shape": "Of the Pareto distribution; 1.16: a fifth of the auctions has 80 % of the bids.",
        **_LAST,
    },
)


def _write(workload: Workload, out: Path) -> None:
    files = workload.write(out)
    report = Table("stream", "rows", "MB", "file")
    for name, file in files.items():
        rows = pq.read_metadata(file).num_rows
        report.add_row(name, f"{rows:,}", f"{file.stat().st_size / 1e6:.2f}", str(file))
    console = Console()
    console.print(report)
    console.print(workload.query(), markup=False, highlight=False, soft_wrap=True)


def run() -> None:
    """Entry point: an error of Penstock becomes one line and its exit code."""
    try:
        app()
    except PenstockError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
