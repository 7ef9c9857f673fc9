"""Makes output rows in several threads, ahead of who takes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
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


def made(
    makings: Iterable[Making], lanes: int, rest: Callable[[], Iterable[Making]] = tuple
) -> Generator[Rows, None, None]:
    """Make rows in as many threads as there are lanes; give them in order.

    While rows are made, the next ones are asked for: at most one batch per thread is ahead of the
    one that is given. Closing the generator waits for those that have begun.

    Parameters
    ----------
    rest : callable
        Tells how to make further rows after all others. The last of them are made in the caller's
        thread, which would otherwise wait for them.
    """
    threads = min(lanes, MOST_THREADS)
    waiting: deque[Future[Rows]] = deque()
    with ThreadPoolExecutor(threads, "penstock-rows", only_computes) as pool:
        try:
            for making, is_last in _last_known(makings, rest):
                if is_last or (making.count < LEAST_ROWS and not waiting):
                    rows = making.make()
                    while waiting:
                        yield waiting.popleft().result()
                    yield rows
                    continue
                waiting.append(pool.submit(making.make))
                while waiting and (len(waiting) > threads or waiting[0].done()):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _last_known(
    makings: Iterable[Making], rest: Callable[[], Iterable[Making]]
) -> Iterator[tuple[Making, bool]]:
    """Tell of each making whether it is the last one; of those before the rest it is not known."""
    for making in makings:
        yield making, False
    left = iter(rest())
    making = next(left, None)
    while making is not None:
        following = next(left, None)
        yield making, following is None
        making = following
