"""Makes output rows in several threads, ahead of the caller that takes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from ..execute.promptness import only_computes
from .output import Making, RowsByArrival

#: Most threads that make rows: copying needs memory, and fewer threads than finding pairs does.
MOST_THREADS = 16
#: Rows that are cheaper to make than another thread is to start: 20 microseconds per column.
LEAST_ROWS = 1 << 14


def make_rows(
    makings: Iterable[Making], lanes: int, last_makings: Callable[[], Iterable[Making]] = tuple
) -> Generator[RowsByArrival, None, None]:
    """Make rows in as many threads as there are lanes; give them in order.

    While rows are made, the next makings are fetched: at most one batch per thread is ahead of the
    yielded one. Closing the generator waits for the batches that have begun.

    Parameters
    ----------
    last_makings : callable
        Tells how to make further rows, after all makings. The last ones are made in the caller's
        thread, which would otherwise wait for them.
    """
    threads = min(lanes, MOST_THREADS)
    waiting: deque[Future[RowsByArrival]] = deque()
    with ThreadPoolExecutor(threads, "penstock-rows", only_computes) as pool:
        try:
            for making, is_last in _last_known(makings, last_makings):
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
    makings: Iterable[Making], last_makings: Callable[[], Iterable[Making]]
) -> Iterator[tuple[Making, bool]]:
    """Yield each making, and whether it is known to be the last one."""
    for making in makings:
        yield making, False
    left = iter(last_makings())
    making = next(left, None)
    while making is not None:
        following = next(left, None)
        yield making, following is None
        making = following
