"""Command line of the workloads: writes each stream as Parquet, and the join as SQL."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table

from penstock.errors import PenstockError

from .attack import Attack
from .backbone import PAPER_NAMES, SHORT_NAMES, Backbone
from .base import Workload
from .calls import Calls
from .city import City

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

Out = Annotated[Path, typer.Option(help="Folder to write to; made if missing.")]
Seconds = Annotated[float, typer.Option(help="Length of the run in seconds of event time.")]
Disorder = Annotated[float, typer.Option(help="Most seconds a row arrives after its time.")]
Seed = Annotated[int, typer.Option(help="Same seed, same rows.")]


@app.command()
def city(
    out: Out,
    seconds: Seconds = City.seconds,
    rate: Annotated[float, typer.Option(help="Positions per second.")] = City.gps_rate,
    order_rate: Annotated[float, typer.Option(help="Orders per second.")] = City.order_rate,
    vehicles: Annotated[int, typer.Option(help="Vehicles that report.")] = City.vehicles,
    radius: Annotated[int, typer.Option(help="Half the city's side, 1e-5 degree.")] = City.radius,
    disorder: Disorder = City.disorder_s,
    seed: Seed = City.seed,
) -> None:
    """Ride orders and vehicle positions in a city with hot spots."""
    workload = City(
        seconds=seconds,
        gps_rate=rate,
        order_rate=order_rate,
        vehicles=vehicles,
        radius=radius,
        disorder_s=disorder,
        seed=seed,
    )
    _write(workload, out)


@app.command()
def backbone(
    out: Out,
    seconds: Seconds = Backbone.seconds,
    rate: Annotated[float, typer.Option(help="Packets per second in r.")] = Backbone.rate,
    ratio: Annotated[float, typer.Option(help="Packets in s for each in r.")] = Backbone.ratio,
    hosts: Annotated[int, typer.Option(help="Addresses in use.")] = Backbone.hosts,
    skew: Annotated[float, typer.Option(help="Zipf exponent; 0 is even.")] = Backbone.skew,
    overlap: Annotated[
        float, typer.Option(help="Share of packets whose flow passes both points.")
    ] = Backbone.overlap,
    short_names: Annotated[
        bool, typer.Option("--short-names", help="Name the addresses src and dst.")
    ] = False,
    disorder: Disorder = Backbone.disorder_s,
    seed: Seed = Backbone.seed,
) -> None:
    """Packet headers at two points of a backbone."""
    workload = Backbone(
        seconds=seconds,
        rate=rate,
        ratio=ratio,
        hosts=hosts,
        skew=skew,
        overlap=overlap,
        names=SHORT_NAMES if short_names else PAPER_NAMES,
        disorder_s=disorder,
        seed=seed,
    )
    _write(workload, out)


@app.command()
def attack(
    out: Out,
    seconds: Seconds = Attack.seconds,
    rate: Annotated[float, typer.Option(help="Packets per second and site.")] = Attack.rate,
    ports: Annotated[int, typer.Option(help="Ports that other packets go to.")] = Attack.ports,
    skew: Annotated[float, typer.Option(help="Zipf exponent; 0 is even.")] = Attack.skew,
    share: Annotated[
        float, typer.Option(help="Share of packets that belong to the attack while it lasts.")
    ] = Attack.share,
    port: Annotated[int, typer.Option(help="The port under attack.")] = Attack.port,
    disorder: Disorder = Attack.disorder_s,
    seed: Seed = Attack.seed,
) -> None:
    """Packet headers at two sites while both are flooded."""
    workload = Attack(
        seconds=seconds,
        rate=rate,
        ports=ports,
        skew=skew,
        share=share,
        port=port,
        disorder_s=disorder,
        seed=seed,
    )
    _write(workload, out)


@app.command()
def calls(
    out: Out,
    seconds: Seconds = Calls.seconds,
    rate: Annotated[float, typer.Option(help="Calls per second.")] = Calls.rate,
    subscribers: Annotated[int, typer.Option(help="Rows of the table.")] = Calls.subscribers,
    exponent: Annotated[float, typer.Option(help="Zipf exponent; 0 is even.")] = Calls.exponent,
    absent: Annotated[
        float, typer.Option(help="Share of calls of numbers that are no subscriber's.")
    ] = Calls.absent,
    drift: Annotated[
        float, typer.Option(help="Share of ranks that change hands at a time.")
    ] = Calls.drift,
    drift_s: Annotated[float, typer.Option(help="Seconds from change to change.")] = Calls.drift_s,
    seed: Seed = Calls.seed,
) -> None:
    """Call records and the table of subscribers that they look up."""
    workload = Calls(
        seconds=seconds,
        rate=rate,
        subscribers=subscribers,
        exponent=exponent,
        absent=absent,
        drift=drift,
        drift_s=drift_s,
        seed=seed,
    )
    _write(workload, out)


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
