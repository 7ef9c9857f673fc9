"""Makes output rows in several threads, ahead of who takes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ..execute.promptness import only_computes
from .output import Rows

#: Most threads that make rows: copying needs memory, and fewer threads than finding pairs does.
MOST_THREADS = 16
#: Rows below which another thread would cost more than they do: 20 microseconds per column.
LEAST_ROWS = 1 << 14


@dataclass(frozen=True)
class Making:
    """Output rows that any thread can make.

    Parameters
    ----------
    count : int
        Number of rows.
    make : callable
        Makes them; to be called once.
    """

    count: int
    make: Callable[[], Rows]


def made(makings: Iterable[Making], lanes: int) -> Generator[Rows, None, None]:
    """Make rows in as many threads as there are lanes; give them in order.

    While rows are made, the next ones are asked for: at most one batch per thread is ahead of the
    one that is given. Closing the generator waits for those that have begun.
    """
    threads = min(lanes, MOST_THREADS)
    waiting: deque[Future[Rows]] = deque()
    with ThreadPoolExecutor(threads, "penstock-rows", only_computes) as pool:
        try:
            for making in makings:
                if making.count < LEAST_ROWS and not waiting:
                    yield making.make()
                    continue
                waiting.append(pool.submit(making.make))
                while waiting and (len(waiting) > threads or waiting[0].done()):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
