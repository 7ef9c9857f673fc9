"""Figures of the last minutes of each join on a page."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

#: Seconds between two looks at a join.
EVERY_S = 1.0
#: Looks that are kept: ten minutes.
KEPT = 600
#: Looks over which shares of work are taken, and failures counted: a minute.
MINUTE = 60
#: Spans of a trace that a look has at most, and that are kept.
SPANS = 240


@dataclass(frozen=True)
class Step:
    """Two looks at a join, in seconds since 1970; numbers are by metric and label."""

    began: float
    before: Mapping[str, Mapping[str, float]]
    ended: float
    now: Mapping[str, Mapping[str, float]]

    def values(self, name: str) -> dict[str, float]:
        """Return the latest numbers of a metric, by label."""
        return dict(self.now.get(name, {}))

    def value(self, name: str, label: str = "") -> float:
        """Return the latest number of a metric; 0 if there is none."""
        return self.now.get(name, {}).get(label, 0.0)

    def rates(self, name: str) -> dict[str, float]:
        """Return how much a metric has grown per second, by label; 0 where it began anew."""
        seconds, first = self.ended - self.began, self.before.get(name, {})
        return {
            label: max(0.0, number - first.get(label, 0.0)) / seconds if seconds > 0 else 0.0
            for label, number in self.now.get(name, {}).items()
        }


@dataclass
class History:
    """The last looks at a join.

    Attributes
    ----------
    count : int
        Looks so far, with those that are no longer kept.
    spans : deque of (track, work, begin, end)
        What lanes did last, in seconds since 1970.
    texts : dict of str to str
        What metrics are, by their names without ``_total``.
    findings : sequence of (text, remedy)
    unit : str
        Of event times.
    ended : float or None
        When the join ended.
    """

    count: int = 0
    spans: deque[Sequence[Any]] = field(default_factory=lambda: deque(maxlen=SPANS))
    texts: dict[str, str] = field(default_factory=dict)
    findings: Sequence[Sequence[str]] = ()
    unit: str = ""
    ended: float | None = None
    _looks: deque[tuple[float, Any]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def hear(self, at: float, message: Mapping[str, Any]) -> None:
        """Take in what :mod:`.page` says of the join."""
        self.count += 1
        self._looks.append((at, message["values"]))
        self.spans.extend(message["spans"])
        self.texts.update(message["texts"])
        self.findings, self.unit = message["findings"], message["unit"]

    def steps(self, seen: int) -> Iterator[Step]:
        """Yield the steps after so many looks, of those that are kept."""
        first = max(0, seen - 1 - (self.count - len(self._looks)))
        for before, now in pairwise(islice(self._looks, first, None)):
            yield Step(*before, *now)

    def over(self, looks: int) -> Step:
        """Return the step from so many looks ago until now, or from the first look."""
        return Step(*self._looks[max(0, len(self._looks) - 1 - looks)], *self._looks[-1])
