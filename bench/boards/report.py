"""The tables of docs/hardware/resources.md."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.boards.counts import KEY_BITS, NARROW_BITS, Counts
from bench.boards.largest import Fit, largest_join, largest_window
from bench.boards.memory import WindowMemory
from bench.boards.power import BASE_W
from bench.boards.sizes import JoinSizes, WindowSizes, errors
from penstock.constraints.boards import BOARDS
from penstock.hw.board.placement import clock_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "hardware" / "resources.md"
#: The page's lines between these two are written by the command.
BEGIN = "<!-- python -m bench.boards writes what follows -->"
END = "<!-- until here -->"

SHARES = (0.6, 0.8)
_MEMORY_HEADS = (
    *("board", "banks, MiB", "a bank brings, GB/s", "a port, bits: GB/s"),
    *(f"a kernel reads, {bits} bits, GB/s" for bits in (KEY_BITS, NARROW_BITS)),
    *(f"kernels, {bits} bits" for bits in (KEY_BITS, NARROW_BITS)),
    *("banks of a window", "window tuples in a bank", "in all of these"),
)
_HEADS = ("board", "share", "clock, MHz", "size", "limit", "evaluations/s", "W", "pJ/evaluation")


def tables(counts: Counts) -> str:
    """All tables, as Markdown."""

    def join(name: str, share: float, key_bits: int = KEY_BITS) -> Fit | None:
        sizes = JoinSizes.fit(counts, BOARDS[name].port_bits, key_bits)
        return largest_join(name, share, sizes, key_bits)

    def window(name: str, share: float) -> Fit | None:
        return largest_window(name, share, WindowSizes.fit(counts, BOARDS[name].port_bits))

    parts = [
        "### Join kernels × units",
        _table(join),
        f"### Join kernels × units of {NARROW_BITS}-bit codes",
        _table(partial(join, key_bits=NARROW_BITS)),
        "### Join kernels by memory banks",
        memory_table(),
        "### Window operator, ROWS × P",
        _table(window),
        "### The model of sizes, at builds that it was not fitted to",
        "| build | LUT | FF | block RAM |\n|---|---|---|---|",
    ]
    parts[-1] += "".join(
        f"\n| {name} | {off['lut']:+.2%} | {off['ff']:+.2%} | {off['bram']:+.0f} |"
        for name, off in errors(counts).items()
    )
    return "\n\n".join(parts) + "\n"


def memory_table() -> str:
    """How many join kernels the banks of each board serve, and how long a window they hold."""
    lines = [f"| {' | '.join(_MEMORY_HEADS)} |", f"|{'---|' * len(_MEMORY_HEADS)}"]
    for name, board in BOARDS.items():
        wide, narrow = (WindowMemory(board, bits) for bits in (KEY_BITS, NARROW_BITS))
        reached = wide.banks(board.slrs)
        row = [
            name,
            f"{board.banks} × {board.bank_mib:,}",
            f"{wide.bank_bytes_s / 1e9:.1f}",
            f"{board.port_bits}: {wide.port_bytes_s / 1e9:.1f}",
            *(f"{one.kernel_bytes_s / 1e9:.1f}" for one in (wide, narrow)),
            *(_kernels(one) for one in (wide, narrow)),
            str(reached),
            f"{wide.tuples(1):,}",
            f"{wide.tuples(reached):,}",
        ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _kernels(memory: WindowMemory) -> str:
    most, short = memory.kernels
    return f"{most}, {short}" if short else str(most)


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
