"""CPU seconds of a row with 1 to 16 workers, each with rows of its own, beside UpPar.

Two cores cannot show sixteen nodes; what all workers spend on a row can be seen all the same, and
it is what limits a node (figures 9a to 9c, 10d, 11 of the paper).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from bench.rows import Row
from bench.workers import pair, uppar
from bench.workers.jobs import agree, cm, nb7, ro, ysb
from bench.workers.joins import nb8, nb11
from bench.workers.model import fitted
from bench.workers.scale import Scale
from bench.workers.tasks import Task

#: The paper's rates of Slash over UpPar (§8.2), and least CPU seconds of UpPar over ours with 8.
PAPER_UPPAR = {
    "YSB": "12x", "CM": "up to two orders of magnitude", "NB7": "22x", "NB8": "8x", "NB11": "1.7x"
}  # fmt: skip
TARGET_UPPAR = {"YSB": 1.0, "CM": 2.0, "NB7": 2.0, "NB8": 1.0, "NB11": 1.0}
#: Those that change few groups many times: what is shipped hardly grows with the workers.
_FOLDING = ("CM", "NB7")
#: Most growth of CPU seconds from one worker to two, and from two to the most; how far it may be
#: from fold + ship (n-1)/n.
MOST_AT_TWO, MOST_GROWTH, MOST_OFF = 0.3, 0.15, 0.1
#: How far a projected rate may be from the measured one.
MOST_PROJECTED = 0.15
#: Least rate of two workers over one.
TARGET_TWO = 1.7
NANO = 1e9


@dataclass(frozen=True)
class Point:
    """What workers did, by the median of their turns.

    Parameters
    ----------
    workers : int
    cpu_s : float
        Of a row, over all workers.
    rate : float
        Rows per second by the clock.
    sent_bytes : float
        Of a row, to other workers.
    busiest : float
        Rows of the one that folded most over the mean of those that fold.
    """

    workers: int
    cpu_s: float
    rate: float
    sent_bytes: float
    busiest: float


Curve = dict[int, Point]


def curves(
    job: Task, sizes: Sequence[int], rounds: int, contenders: Sequence[str] = ("ours", "UpPar")
) -> dict[str, Curve]:
    """Points by contender and number of workers; their groups are compared.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of workers; UpPar has none alone.
    rounds : int
        Turns that count.
    """
    mains = {"ours": pair.main, "UpPar": uppar.main}
    found: dict[str, Curve] = {name: {} for name in contenders}
    for size in sizes:
        answers = {}
        for name in contenders:
            if size > 1 or name == "ours":
                with pair.started(job, size, mains[name]) as own:
                    answers[name] = own.warm().answer
                    found[name][size] = point(own, job, rounds)
        agree(answers)
    return found


def point(own: pair.Pair, job: Task, rounds: int) -> Point:
    """What started workers need for so many turns."""
    size = len(own.stints)
    rows = size * job.rows
    turns = [own.turn() for _ in range(rounds)]
    folded = [stint.rows for stint in own.stints if stint.rows]
    return Point(
        size,
        median(turn.cpu for turn in turns) / rows,
        rows / median(turn.seconds for turn in turns),
        sum(stint.sent_bytes for stint in own.stints) / rows,
        max(folded) * len(folded) / sum(folded),
    )


def jobs(scale: Scale) -> tuple[Task, ...]:
    """Those of figures 9a to 9e; a window of YSB has all rows, as printed."""
    rows, joined = scale.each, scale.joined
    return ysb(rows), cm(rows), nb7(rows), nb8(joined), nb11(joined)


@dataclass(frozen=True)
class Found:
    """What the figures are drawn from.

    Parameters
    ----------
    curves : dict of job to dict of contender to Curve
    skewed : dict of job to dict of skew to dict of contender to Point
        Of two workers.
    """

    curves: dict[str, dict[str, Curve]]
    skewed: dict[str, dict[float, dict[str, Point]]]


def measure(scale: Scale, rounds: int, add: Callable[[Row], None]) -> Found:
    """Add the rows of the table, and return what is drawn."""
    found = Found({}, {})
    for job in jobs(scale):
        own = found.curves[job.name] = curves(job, scale.workers, rounds)
        add(_growth(job, own["ours"]))
        add(_checked(job, own["ours"]))
        add(_over_uppar(job, own))
        if job.short in _FOLDING:
            add(_two_over_one(job, own["ours"]))
    for name, make in (("YSB", ysb), ("RO", ro)):
        found.skewed[name] = {
            skew: {
                who: own[2] for who, own in curves(make(scale.each, skew=skew), [2], rounds).items()
            }
            for skew in scale.skews
        }
        most, last = min(8, max(scale.workers)), scale.skews[-1]
        theirs = curves(make(scale.each, skew=last), [most], 1, ["UpPar"])["UpPar"][most]
        add(_skew(name, found.skewed[name], theirs))
    return found


def _growth(job: Task, curve: Curve) -> Row:
    texts = ", ".join(f"{n}: {point.cpu_s * NANO:.0f}" for n, point in curve.items())
    most = max(curve)
    at_two = curve[2].cpu_s / curve[1].cpu_s - 1
    growth = curve[most].cpu_s / curve[2].cpu_s - 1
    model = fitted({n: point.cpu_s for n, point in curve.items() if n <= 2})
    off = max(abs(model.cpu_s(n) / point.cpu_s - 1) for n, point in curve.items())
    if job.short not in _FOLDING:
        target, met = f"within {MOST_OFF:.0%} of fold + ship (n-1)/n", off <= MOST_OFF
    else:
        target = f"1 to 2 <= {MOST_AT_TWO:.0%}, 2 to {most} <= {MOST_GROWTH:.0%}"
        met = at_two <= MOST_AT_TWO and growth <= MOST_GROWTH
    return Row(
        f"CPU ns per row by workers, {job.name}, {job.rows:,} rows each",
        f"{texts}; 1 to 2 {at_two:+.0%}, 2 to {most} {growth:+.0%}, the model is {off:.0%} off",
        target,
        met,
        "near-linear (paper)",
        {"job": job.name, "points": [asdict(point) for point in curve.values()], "off": off},
    )


def _checked(job: Task, curve: Curve) -> Row:
    """What the projections rest on: rates by the clock follow from CPU seconds."""
    model = fitted({n: curve[n].cpu_s for n in (1, 2)})
    over = {n: n / model.cpu_s(n) / curve[n].rate for n in (1, 2)}
    return Row(
        f"projected over measured rows/s, {job.name}, 1 and 2 workers",
        f"{over[1]:.2f}, {over[2]:.2f}",
        f"within {MOST_PROJECTED:.0%}",
        all(abs(own - 1) <= MOST_PROJECTED for own in over.values()),
        "",
        {"job": job.name, "over": over},
    )


def _over_uppar(job: Task, found: dict[str, Curve]) -> Row:
    ours, theirs = found["ours"], found["UpPar"]
    over = {n: theirs[n].cpu_s / ours[n].cpu_s for n in theirs}
    sent = {n: theirs[n].sent_bytes / max(ours[n].sent_bytes, 1e-9) for n in theirs}
    size = 8 if 8 in over else max(over)
    target = TARGET_UPPAR[job.short]
    return Row(
        f"CPU seconds of UpPar over ours, {job.name}, {size} workers",
        f"{over[size]:.2f}x; bytes sent {sent[size]:.1f}x; its busiest receiver has "
        f"{theirs[size].busiest:.2f} of their mean",
        f">= {target:g}x",
        over[size] >= target,
        f"rows/s {PAPER_UPPAR[job.short]} (paper)",
        {"job": job.name, "over": over, "sent": sent, "points": list(map(asdict, theirs.values()))},
    )


def _two_over_one(job: Task, curve: Curve) -> Row:
    over = curve[2].rate / curve[1].rate
    return Row(
        f"two workers over one by the clock, {job.name}",
        f"{over:.2f}x, {curve[2].rate / 1e6:.1f} M rows/s",
        f">= {TARGET_TWO:g}x",
        over >= TARGET_TWO,
        f"one {curve[1].rate / 1e6:.1f} M rows/s",
        {"job": job.name, "over": over},
    )


def _skew(name: str, found: dict[float, dict[str, Point]], most: Point) -> Row:
    """Figure 10d.

    Parameters
    ----------
    most : Point
        Of more workers of UpPar, at the last skew.
    """
    first, *_, last = found
    over, beside = (found[first][who].cpu_s / found[last][who].cpu_s for who in ("ours", "UpPar"))
    return Row(
        f"rows per CPU second at Zipf {last:g} over {first:g}, {name}, two workers",
        f"{over:.2f}x; UpPar {beside:.2f}x, and the busiest of its {most.workers // 2} receivers "
        f"at {last:g} has {most.busiest:.1f} times the mean",
        ">= 1x",
        over >= 1,
        f"{'rises' if name == 'YSB' else 'constant'}; UpPar falls (paper)",
        {
            "name": name,
            "points": {s: {who: asdict(p) for who, p in own.items()} for s, own in found.items()},
            "busiest": most.busiest,
        },
    )
