"""What a row costs each kind of worker: in place of the paper's table 1 and figures 12 and 13.

Seconds and messages are those of a turn. Counters of the processor are ``perf``'s, where the kernel
gives them.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

from bench.rows import Row
from bench.workers import pair, uppar
from bench.workers.mate import Stint
from bench.workers.tasks import Task

#: Events of ``perf``, by what they are called here.
EVENTS = {
    "instructions": "instructions",
    "cycles": "cycles",
    "cache misses": "cache-misses",
    "page faults": "page-faults",
}
NOT_AVAILABLE = "not available"
_NANO = 1e9
#: Seconds that ``perf`` may take to say what it has counted.
_PERF_S = 30.0


@dataclass(frozen=True)
class Role:
    """What workers of one kind did, for each row of all workers.

    Parameters
    ----------
    name : str
    workers : int
    cpu_s, sent_bytes, messages : float
    credit_waits, waits : int
        Times that a message found too little room, and that there was nothing to do.
    counters : mapping of str to float or None
        Of the processor; None where it does not tell.
    """

    name: str
    workers: int
    cpu_s: float
    sent_bytes: float
    messages: float
    credit_waits: int
    waits: int
    counters: Mapping[str, float | None]

    @property
    def text(self) -> str:
        known = [f"{own:.3g} {name}" for name, own in self.counters.items() if own is not None]
        unknown = ", ".join(name for name, own in self.counters.items() if own is None)
        parts = [
            f"{self.workers} {self.name}: {self.cpu_s * _NANO:.1f} ns",
            f"{self.sent_bytes:.1f} B",
            f"{self.messages * 1e6:.0f} messages per million",
            f"{self.credit_waits} waits for credit",
            f"{self.waits} for work",
            *known,
        ]
        return ", ".join(parts) + (f", {unknown} {NOT_AVAILABLE}" if unknown else "")


def measure(jobs: Sequence[Task], size: int, add: Callable[[Row], None]) -> None:
    """Add what each role needs of each job."""
    for job in jobs:
        roles = [*_roles(job, size, pair.main), *_roles(job, size, uppar.main)]
        add(
            Row(
                f"per row and role, {job.name}, {job.rows:,} rows of each of {size}",
                "; ".join(role.text for role in roles),
                values={"job": job.name, "roles": [vars(role) for role in roles]},
            )
        )


def _roles(job: Task, size: int, main: Callable[..., None]) -> list[Role]:
    with pair.started(job, size, main) as own:
        own.warm()
        with counted(own.pids) as counters:
            own.turn()
        rows = size * job.rows
        names = [_name(main is uppar.main, stint) for stint in own.stints]
        stints = sorted(zip(names, own.stints, counters(), strict=True), key=lambda one: one[0])
    return [
        _role(name, rows, [(stint, found) for _, stint, found in some])
        for name, some in groupby(stints, key=lambda one: one[0])
    ]


def _name(is_uppar: bool, stint: Stint) -> str:
    if not is_uppar:
        return "workers"
    return "UpPar's receivers" if stint.rows else "UpPar's senders"


def _role(name: str, rows: int, some: Sequence[tuple[Stint, Mapping[str, float | None]]]) -> Role:
    stints = [stint for stint, _ in some]
    counters: dict[str, float | None] = {}
    for event in EVENTS:
        known = [found[event] for _, found in some]
        counters[event] = None if None in known else sum(filter(None, known)) / rows
    return Role(
        name,
        len(stints),
        sum(stint.cpu for stint in stints) / rows,
        sum(stint.sent_bytes for stint in stints) / rows,
        sum(stint.counts.messages for stint in stints) / rows,
        sum(stint.counts.credit_waits for stint in stints),
        sum(stint.counts.waits for stint in stints),
        counters,
    )


Counters = list[dict[str, "float | None"]]


@contextmanager
def counted(pids: Sequence[int]) -> Iterator[Callable[[], Counters]]:
    """Count events of processes in the block; what is given tells them, by process, afterwards."""
    perf = shutil.which("perf")
    said: list[str] = []
    if perf is None:
        yield lambda: [dict.fromkeys(EVENTS) for _ in pids]
        return
    events = ",".join(EVENTS.values())
    running = [
        subprocess.Popen(
            [perf, "stat", "-x", ",", "-e", events, "-p", str(pid)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for pid in pids
    ]
    try:
        yield lambda: [parsed(text) for text in said]
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
            said.append(process.communicate(timeout=_PERF_S)[1])


def parsed(text: str) -> dict[str, float | None]:
    """What ``perf stat -x,`` says: the count comes first, the event third."""
    found: dict[str, float | None] = dict.fromkeys(EVENTS)
    names = {event: name for name, event in EVENTS.items()}
    for line in text.splitlines():
        count, _, rest = line.partition(",")
        event = rest.split(",")[1].partition(":")[0] if rest.count(",") else ""
        if event in names and count.replace(".", "", 1).isdigit():
            found[names[event]] = float(count)
    return found
