"""The largest build of a board, how fast it is, and what stops it from being larger or faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.boards.counts import BLOCK, KEY_BITS
from bench.boards.memory import BANK, WindowMemory
from bench.boards.power import BASE_W, dynamic_w
from bench.boards.sizes import LEAST_BANKS, JoinSizes, WindowSizes, queue_urams
from penstock.constraints.boards import BOARDS, Board
from penstock.hw.board.placement import clock_of
from penstock.hw.cells import Cells
from penstock.hw.window.config import MAX_BANKS

#: Slots of a bank of the window kernel: fewer would not lie in block RAM.
_SLOTS = tuple(1 << bits for bits in range(9, 15))  # with 64 banks as deep as a build may be
_KINDS = {"lut": "LUT", "ff": "FF", "bram": "block RAM", "uram": "URAM"}


@dataclass(frozen=True)
class Fit:
    """The largest build of one kind on a board.

    Parameters
    ----------
    what : str
        Its size.
    cells : Cells
        Of all kernels.
    limit : str
        What a larger one has too little of; memory banks, where this one has too little of them.
    urams : int
        UltraRAMs of all kernels; their energy is not part of the watts.
    evaluations_per_s : float
        While every unit has a tuple, or the windows are full.
    slowed_by : str
        What keeps it from an evaluation per unit and cycle; empty if nothing does.
    watts : float
    """

    what: str
    cells: Cells
    limit: str
    evaluations_per_s: float
    slowed_by: str
    watts: float
    urams: int = 0

    @property
    def evaluation_j(self) -> float:
        """Joules per evaluation."""
        return self.watts / self.evaluations_per_s


def largest_join(name: str, share: float, sizes: JoinSizes, key_bits: int = KEY_BITS) -> Fit | None:
    """The largest join kernels: one per die, of one pipeline.

    Parameters
    ----------
    name : str
        Of the board.
    share : float
        What of each kind of cell they may take.
    sizes : JoinSizes
        Of kernels with the board's ports.
    key_bits : int
        Width of the codes, for which the sizes are.

    Returns
    -------
    Fit or None
        None if not even two units fit.
    """
    board = BOARDS[name]
    kernels = board.slrs
    most = _most(board, share)

    def cells(blocks: float) -> Cells:
        each = sizes.cells(blocks)
        return Cells(*(kernels * value for value in vars(each).values()))

    blocks = 0
    while not _over(cells(blocks + 1), most):
        blocks += 1
    if not blocks:
        return None
    memory = WindowMemory(board, key_bits)
    rate, slowed_by = memory.fed(kernels)
    found, clock = cells(blocks), clock_of(board)
    return Fit(
        what=f"{kernels} × {blocks * BLOCK}",
        cells=found,
        limit=BANK if slowed_by == BANK else _over(cells(blocks + 1), most)[0],
        evaluations_per_s=kernels * blocks * BLOCK * clock * 1e6 * rate,
        slowed_by=slowed_by,
        watts=BASE_W[name] + dynamic_w(found, board, clock),
    )


def largest_window(name: str, share: float, sizes: WindowSizes) -> Fit | None:
    """The window-join kernel with the largest product of ROWS and P, of equal ones the larger P."""
    board = BOARDS[name]
    most = _most(board, share)
    banks = [1 << bits for bits in range(LEAST_BANKS.bit_length() - 1, MAX_BANKS.bit_length())]
    builds = [(slots, number) for slots in _SLOTS for number in banks]

    def over(slots: int, number: int) -> tuple[list[str], bool]:
        """What is missing with the queues in the better memory, and whether that is UltraRAM."""
        rams = _over(sizes.cells(slots, number), most)
        if not rams or not board.uram:
            return rams, False
        cells = sizes.cells(slots, number, in_uram=True)
        return _over(cells, most, 2 * number * queue_urams(slots)), True

    fitting = [build for build in builds if not over(*build)[0]]
    if not fitting:
        return None
    slots, number = max(fitting, key=lambda build: (build[0] * build[1] ** 2, build[1]))
    in_uram = over(slots, number)[1]
    found, clock = sizes.cells(slots, number, in_uram=in_uram), clock_of(board)
    rows = slots * number
    # A round matches a tuple of each side with ROWS of the other, see WindowConfig.round_cycles.
    per_cycle = 2 * rows / (slots + 2)
    larger = [(slots * 2, number), (slots, min(number * 2, MAX_BANKS))]
    limits = [kind for build in larger for kind in over(*build)[0]]
    return Fit(
        what=f"{rows:,} × {number}",
        cells=found,
        limit=_first(limits, "P ≤ 64"),
        evaluations_per_s=per_cycle * clock * 1e6,
        slowed_by="",
        watts=BASE_W[name] + dynamic_w(found, board, clock),
        urams=2 * number * queue_urams(slots) if in_uram else 0,
    )


def _most(board: Board, share: float) -> dict[str, int]:
    """Cells of each kind that kernels may take."""
    return {kind: int(getattr(board, kind) * share) for kind in _KINDS}


def _over(cells: Cells, most: dict[str, int], urams: int = 0) -> list[str]:
    """Kinds that a build has too many of, those first of which it has most."""
    taken = {kind: getattr(cells, kind) for kind in most if kind != "uram"} | {"uram": urams}
    shares = {kind: number / max(most[kind], 1) for kind, number in taken.items()}
    over = [kind for kind, value in shares.items() if value > 1]
    return [_KINDS[kind] for kind in sorted(over, key=lambda kind: -shares[kind])]


def _first(names: Sequence[str], otherwise: str) -> str:
    return names[0] if names else otherwise
