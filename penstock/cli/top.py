"""``penstock top``: shows the state of running joins, live."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.host.metrics.exporter import values_by_query

from ..errors import FileError, UsageError
from ..words import count, many, per_second, span
from .options import application, argument, option
from .terminal import NUMBERS, results, table

#: Seconds to wait for one answer.
_TIMEOUT_S = 10.0

#: Values of a join by metric and label; "" where a metric has none.
Values = Mapping[str, Mapping[str, float]]

#: Values by join; "" where one alone is served.
Joins = Mapping[str, Values]


@application
def app(
    address: str = argument("Port on this machine, or http://HOST:PORT/metrics."),
    every: float = option("Seconds between looks.", default=1.0, min=0.1),
    once: bool = option("Look once, and end.", "--once", default=False),
) -> None:
    """Show rates, windows, latency and lanes of a join that serves metrics."""
    url = f"http://127.0.0.1:{address}/metrics" if address.isdigit() else address
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"a port or an http address is needed, not {address!r}")
    before, began = read(url), time.monotonic()
    if once:
        results.print(screen(before, before, 0.0))
        return
    with Live(screen(before, before, 0.0), console=results, auto_refresh=False) as live:
        while True:
            time.sleep(every)
            now, at = read(url), time.monotonic()
            live.update(screen(before, now, at - began), refresh=True)
            before, began = now, at


def read(url: str) -> Joins:
    """Read the metrics of running joins.

    Raises
    ------
    FileError
        Nothing answers there, or it gives no metrics.
    """
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            text = answer.read().decode()
        families = list(text_string_to_metric_families(text))
    except (OSError, ValueError, urllib.error.URLError) as cause:
        reason = getattr(cause, "reason", cause)
        if isinstance(reason, ConnectionRefusedError):
            reason = "nothing listens there"
        raise FileError(
            f"no metrics at {url} ({reason}); a join serves them after stream.serve_metrics(port)"
        ) from cause
    joins = values_by_query(families)
    if not any("evaluations_total" in values for values in joins.values()):
        raise FileError(f"what answers at {url} is no join of Penstock, or none has begun")
    return joins


def screen(before: Joins, now: Joins, seconds: float) -> Group:
    """Show all joins, with rates over the seconds between both looks."""
    parts: list[Text | Group] = []
    for name, values in now.items():
        if name:
            parts.append(Text(name, style="bold underline"))
        # A join that is new has no rates yet.
        known = name in before
        parts.append(_join(before[name] if known else values, values, seconds if known else 0.0))
    return Group(*parts)


def _join(before: Values, now: Values, seconds: float) -> Group:
    """Show one join."""

    def rate(name: str, label: str = "") -> float:
        return (now[name][label] - before[name].get(label, 0.0)) / seconds if seconds else 0.0

    head = Text.assemble(
        (per_second(rate("evaluations_total"), "evaluations"), "bold"), "   ",
        (per_second(rate("rows_total"), "rows"), "bold"), " of ",
        (count(int(now["rows_total"][""])), "bold"), "   window ",
        (many(int(now["window_rows"][""]), "row"), "bold"),
    )  # fmt: skip
    latency = Text(
        "latency "
        + "   ".join(
            f"p{float(share) * 100:g} {value * 1e3:.1f} ms"
            for share, value in now["latency_seconds"].items()
        )
    )
    sources = table("source", "rows/s", "rows", "late", "watermark lag", right=NUMBERS)
    for name, total in now["arrived_rows_total"].items():
        sources.add_row(
            name,
            count(round(rate("arrived_rows_total", name))),
            count(int(total)),
            count(int(now["late_rows_total"][name])),
            _lag(now, "watermark_lag", name),
        )
    lanes = table("lane", "queue", "busy", "failures", "", right=NUMBERS)
    for name, queued in now["lane_queue"].items():
        busy = rate("lane_busy_seconds_total", name)
        lanes.add_row(
            name,
            count(int(queued)),
            f"{busy:.0%}",
            count(int(now["lane_failures_total"][name])),
            "parked" if now["lane_parked"][name] else "",
        )
    parts = now.get("memory_bytes", {})
    memory = Text(
        "memory " + "   ".join(f"{part} {size / 1e6:.1f} MB" for part, size in parts.items())
    )
    more = [_lookup(now, rate)] if "lookup_version" in now else []
    more += [_routing(now, rate)] if "routing_busiest" in now else []
    more += [_groups(now)] if "groups_open" in now else []
    shared = [_workers(now, rate)] if "worker_rows_total" in now else []
    shared += [lanes] if now["lane_queue"] else []
    return Group(head, latency, memory, *more, sources, *shared)


def _lag(now: Values, metric: str, name: str) -> str:
    """A lag as a span of time or, where times are plain integers, as a number."""
    seconds, number = (now.get(one, {}).get(name) for one in (f"{metric}_seconds", metric))
    if seconds is not None:
        return span(seconds)
    return "-" if number is None else count(int(number))


def _workers(now: Values, rate: Callable[[str, str], float]) -> Table:
    """Show worker processes."""
    ages = now.get("worker_checkpoint_age_seconds", {})
    columns = "worker", "rows/s", "epochs/s", "deltas", "groups", "credit waits", "clock lag"
    shown = table(*columns, "checkpoint", right=NUMBERS)
    for name, entries in now["worker_entries"].items():
        number, age = now["worker_checkpoint"][name], ages.get(name)
        shown.add_row(
            name,
            count(round(max(0.0, rate("worker_rows_total", name)))),  # it may have begun anew
            f"{rate('worker_epochs_total', name):.1f}",
            f"{rate('worker_delta_bytes_total', name) / 1e6:.1f} MB/s",
            count(int(entries)),
            count(int(now["worker_credit_waits_total"][name])),
            _lag(now, "worker_clock_lag", name),
            "-" if age is None else f"{number:.0f}, {age:.0f} s ago",
        )
    return shown


def _groups(now: Values) -> Text:
    """Show the groups of one source."""
    return Text.assemble(
        "groups ", (count(int(now["groups_open"][""])), "bold"), " open   ",
        (many(int(now["groups_timeless_rows_total"][""]), "row"), "bold"), " without a time   ",
        (count(int(now["groups_filtered_rows_total"][""])), "bold"), " left out by WHERE",
    )  # fmt: skip


def _routing(now: Values, rate: Callable[[str, str], float]) -> Text:
    """Show how keys were dealt to lanes."""
    busy = [rate("lane_busy_seconds_total", name) for name in now["lane_queue"]]
    mean = sum(busy) / len(busy) if busy else 0.0
    return Text.assemble(
        "keys on lanes   busiest ", (f"{now['routing_busiest']['']:.2f}", "bold"), " planned, ",
        (f"{max(busy) / mean:.2f}" if mean else "-", "bold"), " by its seconds   ",
        (count(int(now["routing_entries"][""])), "bold"), " entries, ",
        (count(int(now["routing_split"][""])), "bold"), " cells split, ",
        (count(int(now["routing_copies"][""])), "bold"), " copies, ",
        (many(int(now["routing_moved_rows"][""]), "row"), "bold"), " moved   plan ",
        (f"{now['routing_seconds'][''] * 1e3:.1f} ms", "bold"),
    )  # fmt: skip


def _lookup(now: Values, rate: Callable[[str], float]) -> Text:
    """Show the look-ups of a join with a relation."""
    keys, hits = rate("lookup_sought_total"), rate("lookup_hits_total")
    return Text.assemble(
        "relation ", (f"version {count(int(now['lookup_version']['']))}", "bold"),
        f", {now['lookup_age_seconds']['']:.0f} s old   ",
        (f"{hits / keys:.0%}" if keys else "-", "bold"), " of the keys in memory   ",
        (many(int(now["lookup_waiting"][""]), "row"), "bold"), " waiting   ",
        (per_second(rate("lookup_pages_total"), "pages"), "bold"), ", ",
        f"{rate('lookup_page_bytes_total') / 1e6:.1f} MB/s",
    )  # fmt: skip
