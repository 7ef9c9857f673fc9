"""What workers that fold first and ship changes need of processors and links: paper 2, section 8.2.

A row is folded where it arrives; its share of the changes goes to the leader of its key, which is
another of n workers for (n-1)/n of the keys. So a row costs ``fold + ship (n-1)/n`` CPU seconds,
whatever the number of rows, as long as the share of changes does not depend on n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import UsageError

#: Threads of a node and bytes per second of its link, in the paper.
PAPER_THREADS, PAPER_LINK = 10, 11.8e9


@dataclass(frozen=True)
class WorkersModel:
    """CPU seconds of a row.

    Parameters
    ----------
    fold_s : float
        Of a row on one worker, in seconds.
    ship_s : float
        Of a row's share of changes, were all of them shipped, in seconds.
    """

    fold_s: float
    ship_s: float

    def cpu_s(self, workers: int) -> float:
        """CPU seconds of a row over all of so many workers."""
        return self.fold_s + self.ship_s * (workers - 1) / workers

    def rate(
        self,
        nodes: int,
        sent_bytes: float,
        *,
        threads: int = PAPER_THREADS,
        link: float = PAPER_LINK,
    ) -> float:
        """Project rows per second of nodes that share nothing.

        Parameters
        ----------
        nodes : int
        sent_bytes : float
            Of a row, were all changes shipped, in bytes.
        threads : int
            Of each node, each a worker.
        link : float
            Bytes per second out of a node.
        """
        by_threads = threads / self.cpu_s(nodes * threads)
        shipped = sent_bytes * (nodes - 1) / nodes
        by_link = link / shipped if shipped else by_threads
        return nodes * min(by_threads, by_link)


def fitted(cpu_s: Mapping[int, float]) -> WorkersModel:
    """The model through what one and two workers needed.

    Parameters
    ----------
    cpu_s : mapping of int to float
        CPU seconds of a row by number of workers; 1 and 2 among them.

    Raises
    ------
    UsageError
        One of the two is missing.
    """
    if not {1, 2} <= set(cpu_s):
        raise UsageError("the model of workers is fitted to one and two of them; measure both")
    return WorkersModel(cpu_s[1], 2 * (cpu_s[2] - cpu_s[1]))
