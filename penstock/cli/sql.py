"""``penstock sql``: join files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated

import pyarrow as pa
import typer
from rich.table import Table

from penstock.cli import inputs, options
from penstock.cli.terminal import count, errors, meter, results
from penstock.errors import UsageError
from penstock.host.device.operator import Operator
from penstock.host.files import check_writable, open_writer, write_text
from penstock.host.lanes.trace import Trace
from penstock.host.lanes.traced import TracedDevice
from penstock.host.metrics import serve_metrics
from penstock.host.metrics.tables import table_report
from penstock.host.operators import table_join
from penstock.host.pruning.sizes import pruning_sizes
from penstock.host.stats import Stats
from penstock.host.table_join import TableJoin


def command(
    query: inputs.Query,
    table: inputs.Tables,
    time: inputs.Times = None,
    rows: inputs.RowsOption = None,
    within: inputs.WithinOption = None,
    param: inputs.Params = None,
    scale: inputs.Scales = None,
    time_zone: inputs.TimeZone = None,
    device: Annotated[str, typer.Option(help="See `penstock devices`.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="Cores of the cpu device.")] = None,
    units: Annotated[int | None, typer.Option(help="Join units of a simulated device.")] = None,
    pipelines: Annotated[
        int | None, typer.Option(help="Pipelines of the rtl device, each with so many units.")
    ] = None,
    operator: Annotated[
        Operator,
        typer.Option(
            help="What the device does: range joins, or the window-join operator (ROWS windows)."
        ),
    ] = Operator.RANGE,
    banks: Annotated[
        int | None, typer.Option(help="Banks of the rtl device's window-join operator.")
    ] = None,
    rows_depth: Annotated[
        int | None, typer.Option(help="Largest ROWS of the rtl device's window-join operator.")
    ] = None,
    vcd: Annotated[Path | None, typer.Option(help="Waveform of a simulated device.")] = None,
    address: inputs.Address = None,
    token_file: inputs.TokenFile = None,
    package: inputs.Package = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write .parquet, .csv or .arrow.")
    ] = None,
    show: Annotated[int, typer.Option(help="Rows to print where there is no --out.")] = 20,
    stats: Annotated[Path | None, typer.Option(help="Write counts as JSON.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Write what the device did when, for Perfetto or Chrome."),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(help="Serve metrics to Prometheus and `penstock top` meanwhile; 0: any port."),
    ] = None,
    disorder: Annotated[
        list[str] | None,
        typer.Option(help="Most that rows may be out of order: 10, 5s, or a=10; else an error."),
    ] = None,
    no_band: inputs.NoBand = False,
    no_pruning: inputs.NoPruning = False,
    progress: Annotated[bool, typer.Option(help="Show a progress bar on a terminal.")] = True,
) -> None:
    """Join two tables over a time or ROWS window, or aggregate what joins."""
    if show < 0:
        raise UsageError(f"--show takes a number of rows, not {show}")
    given = inputs.read_inputs(query, table, time, rows, within, param, scale, time_zone)
    for path in (stats, trace):
        if path is not None:
            check_writable(path)
    spans = Trace(trace is not None)
    with (
        inputs.open_named(
            device,
            threads=threads,
            units=units,
            vcd=vcd,
            pipelines=pipelines,
            banks=banks,
            rows_depth=rows_depth,
            address=address,
            token_file=token_file,
            package=package,
        ) as opened,
        meter(progress) as shown,
    ):
        traced = TracedDevice(opened, spans)
        join = table_join(given.query, operator)(
            given.query,
            given.tables(),
            traced,
            band=not no_band,
            disorder=options.spans(disorder or (), "disorder"),
            pruning=pruning_sizes(not no_pruning),
            on_progress=shown.update,
        )
        with _serving(join, traced, metrics_port):
            first = _drain(join, out, show, spans)
    if out is None:
        _print(first, join.stats.rows)
    _summary(join.stats, operator, out)
    if stats is not None:
        counts = {"operator": operator.value, **join.stats.as_dict()}
        write_text(stats, json.dumps(counts, indent=2) + "\n")
    if trace is not None:
        spans.write(trace)


@contextmanager
def _serving(join: TableJoin, device: TracedDevice, port: int | None) -> Iterator[None]:
    """Serve metrics of the join, if a port is given."""
    if port is None:
        yield
        return
    server = serve_metrics(partial(table_report, join, device.lane_reports), port)
    _note(f"metrics: http://127.0.0.1:{server.port}/metrics; penstock top {server.port}")
    try:
        yield
    finally:
        server.close()


def _drain(join: TableJoin, out: Path | None, show: int, spans: Trace) -> pa.Table:
    """Run the join; give the first rows if they are to be printed."""
    first: list[pa.RecordBatch] = []
    kept = 0
    with _output(out, join.schema) as write:
        for batch in join:
            began = monotonic()
            write(batch)
            spans.add("output", "write", began, monotonic())
            if out is None and kept < show:
                first.append(batch.slice(0, min(show - kept, batch.num_rows)))
                kept += first[-1].num_rows
    return pa.Table.from_batches(first, join.schema)


@contextmanager
def _output(out: Path | None, schema: pa.Schema) -> Iterator:
    if out is None:
        yield lambda batch: None
        return
    with open_writer(out, schema) as writer:
        yield writer.write_batch


def _print(table: pa.Table, total: int) -> None:
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        shown.add_column(field.name, justify="right" if number else "left", overflow="fold")
    for row in table.to_pylist():
        shown.add_row(*("NULL" if value is None else str(value) for value in row.values()))
    results.print(shown)
    if total > table.num_rows:
        results.print(
            f"... {count(total - table.num_rows)} more rows; write all with --out FILE",
            style="dim",
            highlight=False,
        )


def _summary(stats: Stats, operator: Operator, out: Path | None) -> None:
    rate = stats.pairs_evaluated / stats.seconds if stats.seconds else 0.0
    where = "" if out is None else f" -> {out}"
    share = stats.pairs_pruned / max(stats.pairs_pruned + stats.pairs_evaluated, 1)
    pruned = f" ({share:.0%} pruned)" if share >= 0.005 else ""
    how = "" if operator is Operator.RANGE else ", window operator"
    _note(
        f"{count(stats.rows)} rows{where}; {count(stats.pairs_in_window)} pairs in the window, "
        f"{count(stats.pairs_evaluated)} evaluated{pruned} in {stats.seconds:.3f} s on "
        f"{stats.device}{how} ({rate / 1e9:.3g} G/s)"
    )
    if "cycles" not in stats.counters:
        return
    name = "window_flits" if operator is Operator.RANGE else "tuples"
    what = "window tuples" if operator is Operator.RANGE else "tuples"
    some, cycles = stats.counters.get(name, 0), stats.counters["cycles"]
    _note(f"{count(cycles)} cycles, {count(some)} {what} ({some / max(cycles, 1):.3g} per cycle)")


def _note(text: str) -> None:
    errors.print(text, style="dim", highlight=False)
