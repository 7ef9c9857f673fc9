"""Figures of the last minutes of each join on a page."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

#: Seconds between two looks at a join.
EVERY_S = 1.0
#: Looks that are kept: ten minutes.
KEPT = 600
#: Looks over which shares of work are taken: a minute.
MINUTE = 60

#: Numbers by metric and label, as :func:`..metrics.exporter.values_by_query` gives them.
Values = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Look:
    """Figures of a join at one moment, in seconds since 1970."""

    at: float
    values: Values


@dataclass(frozen=True)
class Step:
    """Two looks at a join, one after the other."""

    before: Look
    now: Look

    def values(self, name: str) -> Mapping[str, float]:
        """Return the latest numbers of a metric, by label."""
        return self.now.values.get(name, {})

    def rates(self, name: str) -> dict[str, float]:
        """Return how much a metric has grown per second, by label; 0 where it began anew."""
        seconds, first = self.now.at - self.before.at, self.before.values.get(name, {})
        return {
            label: max(0.0, number - first.get(label, 0.0)) / seconds if seconds > 0 else 0.0
            for label, number in self.values(name).items()
        }


@dataclass
class History:
    """The last looks at a join.

    Parameters
    ----------
    name : str

    Attributes
    ----------
    count : int
        Looks so far, those that are no longer kept included.
    latest : mapping
        The newest message about it, see :mod:`.server`.
    spans : deque of sequence
        Track, work, begin and end of what lanes did lately.
    ended : float or None
        When it ended.
    """

    name: str
    count: int = 0
    latest: Mapping[str, Any] = field(default_factory=dict)
    spans: deque[Any] = field(default_factory=lambda: deque(maxlen=5000))
    ended: float | None = None
    _looks: deque[Look] = field(default_factory=lambda: deque(maxlen=KEPT))

    def hear(self, at: float, message: Mapping[str, Any]) -> None:
        """Take in a message."""
        self.latest = message
        self.count += 1
        self._looks.append(Look(at, message["values"]))
        self.spans.extend(message.get("spans", ()))

    def steps(self, seen: int) -> Iterator[Step]:
        """Yield the steps from a look on, counted from 0, of those that are kept."""
        first = max(0, seen - 1 - (self.count - len(self._looks)))
        return (Step(*pair) for pair in pairwise(islice(self._looks, first, None)))

    def over(self, looks: int) -> Step | None:
        """Return the step from so many looks ago; from the first look if there are fewer."""
        if not self._looks:
            return None
        return Step(self._looks[max(0, len(self._looks) - 1 - looks)], self._looks[-1])
