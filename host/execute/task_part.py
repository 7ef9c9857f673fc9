"""Device tasks of an order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from ..device.base import AnyTask, Result, WindowBuffer
from ..device.cut import Piece
from ..device.search import AnySearch

#: Starts a task, as ``Kernel.submit`` does.
Submit = Callable[[WindowBuffer | None, AnyTask | AnySearch], Future[Result]]


@dataclass(eq=False)
class TaskPart:
    """A device task of an order, once it has been submitted.

    Parameters
    ----------
    piece : Piece
        Part of the order's piece.
    by : int
        Logical position that the task's positions count from.
    """

    piece: Piece
    by: int
    future: Future[Result]
