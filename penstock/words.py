"""Numbers as people read them: counts with their nouns, rates, spans of time."""

from __future__ import annotations

#: Units of a span of time, the longest first, in seconds.
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))


def count(number: int) -> str:
    """Write a number with its thousands separated."""
    return f"{number:,}"


def many(number: int, thing: str) -> str:
    """Write a number of things: 1 row, 2,000 rows, 2 passes."""
    plural = "es" if thing.endswith("s") else "s"
    return f"{count(number)} {thing}{'' if number == 1 else plural}"


def percent(share: float) -> str:
    """Write a share: 98.2 %."""
    return f"{100 * share:.3g} %"


def per_second(rate: float, thing: str) -> str:
    """Write a rate of things: 7.2 pairs/s, 950 rows/s, 1.20 G pairs/s."""
    for scale, prefix in ((1e9, "G "), (1e6, "M ")):
        if rate >= scale:
            return f"{rate / scale:,.2f} {prefix}{thing}/s"
    return f"{count(round(rate)) if rate >= 10 else f'{rate:.2g}'} {thing}/s"


def span(seconds: float) -> str:
    """Write a span of time in its largest unit: 40 s, 1.5 min, 250 ms."""
    for scale, unit in _SPANS:
        if abs(seconds) >= scale:
            return f"{seconds / scale:,.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns" if seconds else "0 s"
