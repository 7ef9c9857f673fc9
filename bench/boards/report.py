"""The tables of docs/resources.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.boards.counts import NARROW_BITS, Counts
from bench.boards.largest import Fit, largest_join, largest_window
from bench.boards.power import BASE_W
from bench.boards.sizes import JoinSizes, WindowSizes, errors
from penstock.constraints.boards import BOARDS
from penstock.hw.board.placement import clock_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "resources.md"
#: The page's lines between these two are written by the command.
BEGIN = "<!-- python -m bench.boards writes what follows -->"
END = "<!-- until here -->"

SHARES = (0.6, 0.8)
_HEADS = ("board", "share", "clock, MHz", "size", "limit", "evaluations/s", "W", "pJ/evaluation")


def tables(counts: Counts) -> str:
    """All tables, as Markdown."""
    join, window = JoinSizes.fit(counts), WindowSizes.fit(counts)
    narrow = JoinSizes.fit(counts, NARROW_BITS)
    parts = [
        "### Join kernels × units",
        _table(lambda name, share: largest_join(name, share, join)),
        f"### Join kernels × units of {NARROW_BITS}-bit codes",
        _table(lambda name, share: largest_join(name, share, narrow, NARROW_BITS)),
        "### Window operator, ROWS × P",
        _table(lambda name, share: largest_window(name, share, window)),
        "### The model of sizes, at builds that it was not fitted to",
        "| build | LUT | FF | block RAM |\n|---|---|---|---|",
    ]
    parts[-1] += "".join(
        f"\n| {name} | {off['lut']:+.2%} | {off['ff']:+.2%} | {off['bram']:+.0f} |"
        for name, off in errors(counts).items()
    )
    return "\n\n".join(parts) + "\n"


def _table(largest) -> str:
    lines = [f"| {' | '.join(_HEADS)} |", f"|{'---|' * len(_HEADS)}"]
    for name in BOARDS:
        for share in SHARES:
            lines.append(f"| {' | '.join(_row(name, share, largest(name, share)))} |")
    return "\n".join(lines)


def _row(name: str, share: float, fit: Fit | None) -> Iterator[str]:
    yield name
    yield f"{share:.0%}"
    yield f"{clock_of(BOARDS[name]):g}"
    if fit is None:
        yield from ("none fits", "", "", "", "")
        return
    yield fit.what + (", in URAM" if fit.urams else "")
    yield fit.limit
    yield f"{fit.evaluations_per_s:.2e}" + (f", by {fit.slowed_by}" if fit.slowed_by else "")
    yield f"{BASE_W[name]:g} + {fit.watts - BASE_W[name]:.1f}"
    yield f"{fit.evaluation_j * 1e12:.0f}"


def written(page: str, made: str) -> str:
    """The page with these tables."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{made}\n{END}{after}"
