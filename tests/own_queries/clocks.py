"""Time zones and calendar in plain Python: instants and wall clocks are counts of nanoseconds."""

from datetime import UTC, date, datetime, timedelta, timezone
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

SECOND = 10**9
DAY = 86_400 * SECOND
EPOCH = datetime(1970, 1, 1)
ORDINAL = date(1970, 1, 1).toordinal()


@cache
def zone_of(name: str | None):
    """Return the zone of a session: a region, an offset as +05:30, or UTC."""
    if name is None or name == "UTC":
        return UTC
    if name[0] in "+-":
        hours, minutes = int(name[1:3]), int(name[4:6])
        span = timedelta(hours=hours, minutes=minutes)
        return timezone(-span if name[0] == "-" else span)
    return ZoneInfo(name)


@lru_cache(maxsize=100_000)
def _offset(zone: str | None, seconds: int) -> int:
    moment = EPOCH.replace(tzinfo=UTC) + timedelta(seconds=seconds)
    return int(moment.astimezone(zone_of(zone)).utcoffset().total_seconds())


def to_wall(zone: str | None, instant: int) -> int:
    """Return what a clock of the zone shows at the instant."""
    return instant + _offset(zone, instant // SECOND) * SECOND


def to_instant(zone: str | None, wall: int, preferred: int | None = None) -> int:
    """Return the instant of a wall clock: the earlier of two, or that with a preferred offset.

    A wall clock that is skipped moves on by what is skipped.
    """
    if preferred is not None and to_wall(zone, wall - preferred) == wall:
        return wall - preferred
    shown = (EPOCH + timedelta(seconds=wall // SECOND)).replace(tzinfo=zone_of(zone), fold=0)
    return wall - int(shown.utcoffset().total_seconds()) * SECOND


def add_span(zone: str | None, instant: int, span: int) -> int:
    """Add an interval to an instant: whole days by the calendar, then the rest."""
    days = abs(span) // DAY * (1 if span >= 0 else -1)
    if days:
        wall = to_wall(zone, instant)
        instant = to_instant(zone, wall + days * DAY, wall - instant)
    return instant + span - days * DAY


def to_date(days: int) -> date:
    """Return the date of a count of days since 1970."""
    return date.fromordinal(days + ORDINAL)


def of_date(day: date) -> int:
    """Return the days since 1970 of a date."""
    return day.toordinal() - ORDINAL


def truncate_days(unit: str, days: int) -> int:
    """Return the first day of the week, month, quarter or year of a day."""
    day = to_date(days)
    if unit == "week":
        return days - day.weekday()
    if unit == "month":
        return of_date(day.replace(day=1))
    if unit == "quarter":
        return of_date(day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1))
    return of_date(day.replace(month=1, day=1))


def truncate_wall(unit: str, wall: int) -> int:
    """Return the start of the unit that a wall clock is in."""
    sizes = {"second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND, "day": DAY}
    if unit in sizes:
        return wall // sizes[unit] * sizes[unit]
    return truncate_days(unit, wall // DAY) * DAY


def truncate(zone: str | None, unit: str, instant: int) -> int:
    """Truncate an instant by the zone's clock."""
    wall = to_wall(zone, instant)
    return to_instant(zone, truncate_wall(unit, wall), wall - instant)


def field(name: str, wall: int) -> int:
    """Return a field of a wall clock, as Spark's functions of this name give it."""
    day, rest = to_date(wall // DAY), wall % DAY // SECOND
    return {
        "year": lambda: day.year,
        "month": lambda: day.month,
        "day": lambda: day.day,
        "quarter": lambda: (day.month + 2) // 3,
        "dayofweek": lambda: day.isoweekday() % 7 + 1,
        "weekday": day.weekday,
        "dayofyear": lambda: day.timetuple().tm_yday,
        "weekofyear": lambda: day.isocalendar()[1],
        "hour": lambda: rest // 3600,
        "minute": lambda: rest // 60 % 60,
        "second": lambda: rest % 60,
    }[name]()


def last_day(days: int) -> int:
    """Return the last day of the month of a day."""
    day = to_date(days)
    following = day.replace(day=28) + timedelta(days=4)
    return of_date(following.replace(day=1)) - 1


def add_months(wall: int, months: int) -> int:
    """Add months to a wall clock; a day that the month lacks becomes its last."""
    day = to_date(wall // DAY)
    count = day.year * 12 + day.month - 1 + months
    first = date(count // 12, count % 12 + 1, 1)
    last = to_date(last_day(of_date(first))).day
    return of_date(first.replace(day=min(day.day, last))) * DAY + wall % DAY


def text_of(wall: int) -> str:
    """Write a wall clock as SQL does, with as many digits of a second as it needs."""
    shown = to_date(wall // DAY).isoformat()
    rest = wall % DAY
    seconds = rest // SECOND
    text = f"{shown} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    part = rest % SECOND // 1000
    return text + (f".{part:06}".rstrip("0") if part else "")
