"""Findings: what a person should know of a join's figures, and what helps.

Pure functions of reports and counts. Each finding has a rule, named by ``Finding.rule``; those of
joins that run are here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.words import count, many, percent, span

from .report import Report, lag_s

#: Least share of a source's rows that are late.
_LATE = 0.01
#: Least share of the memory budget in use: ``push`` waits soon.
_FULL = 0.8
#: Least work of the busiest lane over the mean, as planned.
_BUSIEST = 1.5


@dataclass(frozen=True)
class Finding:
    """A statement about a join that somebody may want to change.

    Parameters
    ----------
    rule : str
        Name of the rule that gave it, such as "late".
    text : str
        What was measured, in the user's words.
    remedy : str
        What to do about it.
    where : str
        The alias, part, lane or stage that it is about; "" for the whole query.
    """

    rule: str
    text: str
    remedy: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}"


def of_report(report: Report, before: Report | None = None) -> list[Finding]:
    """Look at a running join, the worst first.

    Parameters
    ----------
    report : Report
        Its latest one.
    before : Report, optional
        An earlier one of the same join: rows and failures are counted since then; by default, since
        the join began.
    """
    return [
        *_lanes(report, before),
        *_memory(report),
        *_waiting(report),
        *_late(report, before),
        *_skew(report),
    ]


def _lanes(report: Report, before: Report | None) -> Iterator[Finding]:
    failed = {} if before is None else {lane.name: lane.failures for lane in before.lanes}
    is_left = any(not lane.parked for lane in report.lanes)
    effect = "the other lanes do its work" if is_left else "no other lane is left"
    for lane in report.lanes:
        if lane.parked:
            yield Finding(
                "parked",
                f"lane {lane.name} is out of service: {lane.failures:,} of its tasks failed",
                f"{effect}; mend its device, and start the join anew",
                lane.name,
            )
        elif failures := lane.failures - failed.get(lane.name, 0):
            yield Finding(
                "retries",
                f"{many(failures, 'task')} failed on lane {lane.name}, and ran again",
                "rows are not affected; logging of penstock says what failed",
                lane.name,
            )


def _memory(report: Report) -> Iterator[Finding]:
    used, limit = sum(report.memory_bytes.values()), report.memory_limit
    if limit is None or used < _FULL * limit:
        return
    part = max(report.memory_bytes, key=report.memory_bytes.__getitem__)
    remedy = "poll more often" if part == "results" else "take a shorter window"
    yield Finding(
        "memory",
        f"{percent(used / limit)} of the memory budget of {limit / 1e6:,.1f} MB is in use, most by "
        f"{part}; push waits when it is full",
        f"{remedy}, or give more: Flow(memory_bytes=...)",
    )


def _waiting(report: Report) -> Iterator[Finding]:
    silent = [alias for alias, rows in report.arrived.items() if not rows]
    senders = [alias for alias, rows in report.arrived.items() if rows]
    for alias in silent if senders else ():
        yield Finding(
            "silent",
            f"no row of {alias} has come, and {' and '.join(senders)} keeps its rows for it",
            f"push rows of {alias}, or say how far its time is: advance({alias!r}, time)",
            alias,
        )
    clock = report.clock
    if clock is None or silent or len(clock.watermarks) < 2 or clock.reach is None:
        return
    slowest = min(clock.watermarks, key=clock.watermarks.__getitem__)
    ahead = max(clock.watermarks.values()) - clock.watermarks[slowest]
    seconds = lag_s(ahead, report.unit)
    if ahead > clock.reach and (ahead if seconds is None else seconds) > 1:
        text = count(ahead) if seconds is None else span(seconds)
        yield Finding(
            "waiting",
            f"this stream waits for {slowest}, {text} behind",
            f"push {slowest} sooner, or advance({slowest!r}, time) where it has no rows; "
            "Flow(idle_s=...) leaves out a source that is silent",
            slowest,
        )


def _late(report: Report, before: Report | None) -> Iterator[Finding]:
    for alias, late in report.late.items():
        rows = report.arrived[alias]
        if before is not None:
            late, rows = late - before.late.get(alias, 0), rows - before.arrived.get(alias, 0)
        if late > 0 and late >= _LATE * rows:
            yield Finding(
                "late",
                f"{percent(late / max(rows, late))} of the rows of {alias} came too late, and "
                "joined nothing",
                f"declare how far they are out of order: disorder={{{alias!r}: ...}}; late() gives "
                "these rows",
                alias,
            )


def _skew(report: Report) -> Iterator[Finding]:
    routing = report.routing
    if routing is not None and routing.busiest >= _BUSIEST:
        yield Finding(
            "skew",
            f"the busiest lane has {routing.busiest:.2g} times the mean work: few keys have most "
            "of the rows",
            "compare one more value in ON, or leave out a value that stands for unknown",
        )
