"""Time zones: how far wall clocks are ahead of UTC, and when that changes.

A zone is a table of its transitions from 1800 to 2499; later years repeat the last 400 of them, as
the calendar does. Wall clocks that are skipped or shown twice are resolved as in ``java.time``, and
so as in Spark.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from .errors import UsageError
from .types import UNIT_NS

_DAY_S = 86_400
#: Days and weekdays repeat after 400 years.
_CYCLE_S = 146_097 * _DAY_S
_FIRST_S, _LAST_S = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1800, 2500))
#: Shorter than any zone kept an offset: Freetown had one for four days in 1939.
_STEP_S = 2 * _DAY_S
#: A wall clock after every other.
_NEVER_S = 1 << 62

#: Names of ``java.time.ZoneId.SHORT_IDS`` that zoneinfo lacks, or has other rules for.
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "Z": "UTC",
    "UT": "UTC",
}
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})(?::(\d{1,2})|:(\d\d):(\d\d))?|(\d\d)(\d\d)(\d\d)?)"
)
_MOST_OFFSET_S = 18 * 3600
#: Zone files that name no place, or count leap seconds.
_NO_ZONES = ("right/", "posix/", "posixrules", "localtime", "Factory", "leapseconds")


class Zone:
    """A time zone.

    Parameters
    ----------
    name : str
        As :func:`zone_of` takes it.
    label : str
        As Arrow's timestamps take it.
    at : sequence of int
        When the offset changes, in seconds since 1970, ascending.
    offsets : sequence of int
        Seconds that a wall clock is ahead of UTC, before the first transition and after each.
    """

    def __init__(self, name: str, label: str, at: list[int], offsets: list[int]) -> None:
        self.name = name
        self.label = label
        self._at = np.array(at, np.int64)
        self._offsets = np.array(offsets, np.int64)
        self._least_s, self._most_s = min(offsets), max(offsets)
        before, after = self._offsets[:-1], self._offsets[1:]
        self._before = before
        self._after = after
        #: Wall clock from which the offset after a transition is taken.
        self._walls = self._at + np.maximum(before, after)
        later = np.append(self._at + after, _NEVER_S)
        self._least_later = np.minimum.accumulate(later[::-1])[::-1]

    @property
    def fixed_s(self) -> int | None:
        """The offset in seconds of a zone that never changes it; None for others."""
        return None if len(self._at) else int(self._offsets[0])

    @property
    def icu_name(self) -> str:
        """Name of the zone for ICU, and so DuckDB, which reads an offset behind GMT alone."""
        if not self.fixed_s:
            return self.label
        minutes, seconds = divmod(abs(self.fixed_s), 60)
        sign = "-" if self.fixed_s < 0 else "+"
        return f"GMT{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"

    def span(self, unit: str) -> tuple[int, int]:
        """The least and greatest offset, in this unit."""
        step = UNIT_NS["s"] // UNIT_NS[unit]
        return self._least_s * step, self._most_s * step

    def local(self, instants: np.ndarray, unit: str, *, floor: bool = False) -> np.ndarray:
        """Convert instants to wall clocks.

        Parameters
        ----------
        instants : ndarray of int64 or object
        unit : str
            Of both.
        floor : bool
            Give the earliest wall clock of that instant and of all later ones; it never falls.
        """
        step = UNIT_NS["s"] // UNIT_NS[unit]
        seconds, shift = _folded(instants // step)
        segment = np.searchsorted(self._at, seconds, side="right")
        wall = instants + self._offsets[segment].astype(instants.dtype) * step
        if not floor:
            return wall
        least = (self._least_later[segment].astype(instants.dtype) + shift) * step
        return np.where(self._least_later[segment] < _NEVER_S, np.minimum(wall, least), wall)

    def instant(
        self,
        walls: np.ndarray,
        unit: str,
        *,
        near: np.ndarray | None = None,
        start: bool = False,
    ) -> np.ndarray:
        """Convert wall clocks to instants.

        A wall clock that is shown twice is the earlier instant; one that is skipped moves on by the
        length of the gap.

        Parameters
        ----------
        walls : ndarray of int64 or object
        unit : str
            Of all.
        near : ndarray, optional
            Instants: where a wall clock is shown twice, the one with the same offset is taken.
        start : bool
            A wall clock that is skipped becomes the moment of the transition, as the start of a day
            does; so instants never fall where wall clocks rise.
        """
        step = UNIT_NS["s"] // UNIT_NS[unit]
        seconds, shift = _folded(walls // step)
        segment = np.searchsorted(self._walls, seconds, side="right")
        offset = self._offsets[segment]
        if not len(self._at):
            return walls - offset.astype(walls.dtype) * step
        following = np.minimum(segment, len(self._at) - 1)
        at, before, after = self._at[following], self._before[following], self._after[following]
        within = (segment < len(self._at)) & (seconds >= at + np.minimum(before, after))
        if near is not None:
            preferred = self._offsets[np.searchsorted(self._at, _folded(near // step)[0], "right")]
            offset = np.where(within & (before > after) & (preferred == after), after, offset)
        instants = walls - offset.astype(walls.dtype) * step
        if not start:
            return instants
        moment = (at.astype(walls.dtype) + shift) * step
        return np.where(within & (before < after), moment, instants)


def _folded(seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bring seconds into the range of the table; also give how much was subtracted."""
    over = np.maximum(seconds - (_LAST_S - _CYCLE_S), 0) // _CYCLE_S * _CYCLE_S
    return np.maximum(seconds - over, _FIRST_S).astype(np.int64), over


@lru_cache(maxsize=64)
def find_zone(name: str) -> Zone | None:
    """Find the zone of a name; None if there is none.

    Parameters
    ----------
    name : str
        A region (``Europe/Dublin``), an offset (``+05:30``, ``GMT+2``), or one of the short names
        that Spark knows (``PST``).
    """
    name_of = _SHORT.get(name, name)
    offset = _OFFSET.fullmatch(name_of)
    if offset is not None:
        return _fixed(name, offset)
    if name_of.startswith(_NO_ZONES):
        return None
    try:
        info = ZoneInfo(name_of)
    except (KeyError, ValueError, OSError):  # not there; no name of a file; a folder
        return None
    at, offsets = _transitions(info)
    return Zone(name, name_of, at, offsets)


def zone_of(name: str) -> Zone:
    """Find the zone of a name; see :func:`find_zone`.

    Raises
    ------
    UsageError
        There is none.
    """
    zone = find_zone(name) if isinstance(name, str) else None
    if zone is None:
        raise UsageError(
            f"there is no time zone {name!r}; give a region such as Europe/Dublin, an offset such "
            "as +05:30, or UTC"
        )
    return zone


def _fixed(name: str, match: re.Match[str]) -> Zone | None:
    hours, minutes, seconds = (
        int(next((match[k] for k in groups if match[k] is not None), 0))
        for groups in ((2, 6), (3, 4, 7), (5, 8))
    )
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > _MOST_OFFSET_S:
        return None
    # Arrow has no name for an offset of seconds, nor for UTC other than this one.
    label = "UTC" if seconds or not total else f"{match[1]}{hours:02}:{minutes:02}"
    return Zone(name, label, [], [-total if match[1] == "-" else total])


def _transitions(info: ZoneInfo) -> tuple[list[int], list[int]]:
    """Find when the offset changes, and the offsets; zoneinfo gives only the offset at a time."""
    at: list[int] = []
    moment, step = _wall(_FIRST_S), timedelta(seconds=_STEP_S)
    known = info.utcoffset(moment)
    offsets = [_seconds(known)]
    for second in range(_FIRST_S + _STEP_S, _LAST_S, _STEP_S):
        moment += step
        offset = info.utcoffset(moment)
        if offset != known:
            low, high = second - _STEP_S, second
            while high - low > 1:
                middle = (low + high) // 2
                later = info.utcoffset(_wall(middle)) != known
                low, high = (low, middle) if later else (middle, high)
            offsets.append(_seconds(offset))
            # Of a wall clock that is skipped or shown twice, zoneinfo gives the earlier offset.
            at.append(high - max(offsets[-2:]))
            known = offset
    return at, offsets


def _wall(second: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(seconds=second)


def _seconds(offset: timedelta | None) -> int:
    assert offset is not None
    return int(offset.total_seconds())
