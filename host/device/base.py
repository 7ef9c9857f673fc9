"""The device contract: joins over prepared keys (docs/inside/device-contract.md).

A range join: given stream tuples ``s[0..n)``, each with a range ``[start_i, end_i)`` into a window,
starts and ends both non-decreasing in i: for every i and every j in its range with ``P(s_i, w_j)``,
emit (i, j), or fold (i, j) into an aggregate of i. A window join: see :mod:`.window_join`. A device
needs no timestamps, ids or filters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from penstock.errors import DeviceError
from penstock.program import AnyProgram, Mode

from .window_join import WindowTask

#: Default modes of a kernel.
PAIRS = frozenset({Mode.PAIRS})
#: Seconds after which a task that has not ended counts as hung.
TIMEOUT_S = 600.0
#: Why a device without the window-join operator refuses its programs.
RANGE_JOINS_ONLY = "it does range joins only; use the range operator"


@dataclass(frozen=True)
class Task:
    """One range join.

    Parameters
    ----------
    stream : sequence of ndarray, each of shape (n,)
        Band program: ``lo_0, hi_0, lo_1, hi_1, ...`` as unsigned codes of the kernel's key dtype.
        General program: the stream keys in the program's order and storage dtypes.
    start, end : ndarray of int64, shape (n,)
        Range of window positions per stream tuple; both non-decreasing, ``start <= end``.
    room : int
        Most pairs the result may hold, at least ``Kernel.min_room``; a task that needs more
        pauses and says where. Ignored for aggregates.
    mode : Mode
        One of the kernel's modes.
    """

    stream: Sequence[np.ndarray]
    start: np.ndarray
    end: np.ndarray
    room: int
    mode: Mode = Mode.PAIRS

    @property
    def rows(self) -> int:
        return len(self.start)


#: A task of either operator.
AnyTask = Task | WindowTask


@dataclass(frozen=True)
class Pause:
    """Point at which a task ran out of room.

    Tuples below ``i0`` are complete; tuples in ``[i0, i1)`` are complete below window position
    ``p``; tuples from ``i1`` on are untouched. Resuming is two ordinary tasks: ``[i0, i1)`` with
    ``start = max(start, p)``, and ``[i1, n)``.
    """

    i0: int
    i1: int
    p: int


@dataclass(frozen=True)
class Folds:
    """Aggregates of a task, one element per stream tuple.

    Parameters
    ----------
    found : ndarray of bool, shape (n,)
        Whether the tuple has a match.
    value : ndarray, shape (n,)
        The fold; 0 (False) for tuples without a match. COUNT: int64. EXISTS: bool, equal to
        ``found``. SUM, MIN, MAX, NEAREST: int64, or Python integers (``object``) if int64 may be
        too narrow, or float64.
    position : ndarray of int64, shape (n,), or None
        NEAREST: window position of the match with the smallest value, the lowest one of several;
        -1 where there is none. None in other modes.
    """

    found: np.ndarray
    value: np.ndarray
    position: np.ndarray | None = None

    def pick(self, chosen: np.ndarray) -> Folds:
        """Return the aggregates of some tuples, by index."""
        position = None if self.position is None else self.position[chosen]
        return Folds(self.found[chosen], self.value[chosen], position)


@dataclass(frozen=True)
class Result:
    """Pairs of a task, each once, in no particular order; or its aggregates.

    Parameters
    ----------
    i, j : ndarray of uint32, shape (m,)
        Stream index within the task, and window position; in a window join rows of A and of B.
        Empty if the task is not for pairs.
    pause : Pause or None
        None if the task is complete, as a task for aggregates always is. A window join pauses
        between tuples: ``i0 == i1``.
    counters : mapping
        Exact counts of this task: ``evaluations`` always (predicate tests executed); simulated
        devices add ``cycles``, ``window_flits`` and more.
    folds : Folds or None
        None if the task is for pairs.
    ran : (float, float) or None
        Monotonic seconds when the device began and ended the task; None if it does not know.
    """

    i: np.ndarray
    j: np.ndarray
    pause: Pause | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    folds: Folds | None = None
    ran: tuple[float, float] | None = None


@dataclass(frozen=True)
class WindowName:
    """Name of a window on a device that keeps windows for its clients.

    Parameters
    ----------
    scope : str
        One run of one query, which owns the window.
    block : str
        Name of rows that never change.
    content : str
        Digest of program, modes and keys, so that no two contents share a name.
    """

    scope: str
    block: str
    content: str


class WindowBuffer(ABC):
    """Room for window keys in the device's memory, positions ``[0, capacity)``."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity

    @property
    def nbytes(self) -> int:
        """Bytes of this process's main memory that the buffer takes."""
        return 0

    @property
    def lost(self) -> bool:
        """Whether the device has lost the keys; such a buffer can only be freed."""
        return False

    @abstractmethod
    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        """Copy keys (one array per window column, equal lengths) to ``offset`` and up.

        Raises DeviceError if they do not fit, or the number of columns is wrong.
        """

    @abstractmethod
    def free(self) -> None:
        """Give the memory back. The buffer must not be used afterwards."""


class Kernel(ABC):
    """A program loaded on a device.

    Allocating memory raises DeviceError if there is no room, or no such bank.
    """

    #: Smallest ``Task.room`` that guarantees progress.
    min_room: int = 1
    #: Banks of memory that its windows can lie in, each with room of its own.
    banks: int = 1
    #: Most positions of a window's memory; longer windows lie in several. None for any number.
    most_positions: int | None = None
    #: Most evaluations of a task that runs faster in the calling thread than in another one; 0 for
    #: a kernel without :meth:`run`.
    here_evaluations: int = 0
    program: Any

    def __init__(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> None:
        self.program = program
        self.modes = modes

    def least_room(self, task: Any) -> int:
        """Room with which this task makes progress, at most ``min_room``."""
        return self.min_room

    def allocate(self, capacity: int) -> WindowBuffer:
        """Memory for ``capacity`` window tuples, unless the program is a ``WindowProgram``."""
        raise DeviceError("tasks of a window join bring their windows; allocate none for them")

    def allocate_in(self, bank: int, capacity: int) -> WindowBuffer:
        """Memory in one bank, 0 to ``banks - 1``; a kernel with several banks has its own way."""
        if bank or self.banks > 1:
            raise DeviceError(
                f"bank {bank} was asked for, but a {type(self).__name__} cannot choose among its "
                f"{self.banks}; use allocate"
            )
        return self.allocate(capacity)

    def prepare_search(self) -> None:
        """Do now what the first search would have to wait for; more than once does nothing."""
        return

    def resident(
        self, name: WindowName, capacity: int, columns: Callable[[], Sequence[np.ndarray]]
    ) -> WindowBuffer | None:
        """The window that is kept under a name; if it is missing, it is written now.

        Parameters
        ----------
        columns : callable
            Gives all its keys.

        Returns
        -------
        WindowBuffer or None
            Free it after the last read; the device keeps it for later callers. None from a device
            that keeps no windows by name.
        """
        return None

    @abstractmethod
    def submit(self, window: Any, task: Any) -> Future[Result]:
        """Start a task; several may be in flight. Failures arrive through the future.

        Parameters
        ----------
        window : WindowBuffer or None
            Allocated by this kernel; None if its program is a ``WindowProgram``.
        task : Task or WindowTask
            A ``WindowTask`` if its program is a ``WindowProgram``.
        """

    def run(self, window: Any, task: Any) -> Result:
        """Run a task in the calling thread; for kernels with ``here_evaluations``."""
        return self.submit(window, task).result()

    def close(self) -> None:  # noqa: B027 - many kernels hold nothing
        """Free the kernel's resources; its buffers become invalid."""


class Device(ABC):
    """Something that runs programs."""

    #: Name on the command line.
    name: str = ""
    #: Tasks that run at the same time; submit at least as many to keep the device busy.
    lanes: int = 1
    #: Stream tuples that it holds while a window passes; a multiple of it is best for a task.
    units: int = 1
    #: Widths of band codes that the device offers, ascending.
    key_widths: Sequence[int] = (16, 32, 64)
    #: Widths of units that run programs of wider codes, for pairs only: the units find those and
    #: false ones, which are dropped (:mod:`penstock.host.devices.narrow`). Ascending.
    narrow_widths: Sequence[int] = ()
    #: Most evaluations of a task, if the device would need seconds for one of the usual size; None
    #: for others.
    task_evaluations: int | None = None
    #: Whether the time of a task follows from its evaluations: a server then cuts heavy tasks.
    is_even: bool = False
    #: Whether :meth:`Kernel.resident` keeps windows.
    keeps_windows: bool = False
    #: Whether its kernels run a :class:`~.search.SearchTask`; others are given ranges.
    searches: bool = False
    #: Whether some of its kernels run small tasks in the calling thread, see :meth:`Kernel.run`.
    runs_here: bool = False

    @abstractmethod
    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        """Why the device cannot run the program, as a sentence for the user; None if it can.

        Modes that are not in ``program.modes`` are a reason on every device, and so is a
        ``WindowProgram`` on one that does range joins only (:data:`RANGE_JOINS_ONLY`).
        """

    @abstractmethod
    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        """Load a program for tasks of these modes.

        Raises DeviceError with the text of ``refuses(program, modes)`` if there is one.
        """

    def keep_windows(self, scope: str, blocks: Collection[str]) -> None:  # noqa: B027
        """Say which blocks of a scope are still wanted; windows of its other blocks may go."""

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """Sums of the counters of all tasks since the device was made."""

    @abstractmethod
    def close(self) -> None:
        """Stop the device's threads and free its memory. Running tasks end first."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def device_list(device: Device | Sequence[Device]) -> list[Device]:
    """The devices that were given, where one may be given by itself."""
    return [device] if isinstance(device, Device) else list(device)
