"""Device tasks of an order, before they are submitted and after."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from ..device.base import AnyTask, Result, WindowBuffer
from ..device.cut import Piece
from ..device.search import AnySearch


class PieceTask(NamedTuple):
    """A device task of an order.

    Parameters
    ----------
    piece : Piece
        Part of the order's piece.
    by : int
        Logical position that the task's positions count from.
    window : WindowBuffer or None
        As ``Kernel.submit`` takes it.
    """

    piece: Piece
    by: int
    window: WindowBuffer | None
    task: AnyTask | AnySearch


@dataclass(eq=False)
class TaskPart:
    """A device task of an order, on its device; ``piece`` and ``by`` as for :class:`PieceTask`."""

    piece: Piece
    by: int
    future: Future[Result]
