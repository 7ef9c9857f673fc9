"""Types, random values of them, and tables; Arrow columns read back as plain values."""

import math
import struct
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from random import Random

import pyarrow as pa

from tests.own_queries.clocks import DAY, SECOND

UNIT = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}
UNITS = list(UNIT)


@dataclass(frozen=True)
class Type:
    """A type of SQL: its kind, digits and scale of a decimal, bits of an integer."""

    kind: str  # int dec f32 f64 bool str date ts ntz dur
    digits: int = 0
    scale: int = 0
    arrow: pa.DataType | None = field(default=None, compare=False)


INT, F32, F64, BOOL = Type("int"), Type("f32"), Type("f64"), Type("bool")
STR, DATE, TS, NTZ, DUR = Type("str"), Type("date"), Type("ts"), Type("ntz"), Type("dur")


def single(value: float) -> float:
    """Round to a float of 32 bits."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


@dataclass
class Column:
    """A column of a table: its name, type and values; None is NULL."""

    name: str
    type: Type
    values: list

    def arrow(self) -> pa.Array:
        """Return the column as an Arrow array."""
        target = self.type.arrow
        kind = self.type.kind
        if kind in ("ts", "ntz", "dur"):
            unit = UNIT[target.unit]
            counts = [None if v is None else v // unit for v in self.values]
            return pa.array(counts, pa.int64()).cast(target)
        if kind == "date":
            days = pa.array(self.values, pa.int32()).cast(pa.date32())
            return days.cast(target)
        if kind == "dec":
            scale = self.type.scale
            written = [
                None if v is None else Decimal(int(v * 10**scale)).scaleb(-scale, _EXACT)
                for v in self.values
            ]
            return pa.array(written, target)
        if pa.types.is_dictionary(target):
            return pa.array(self.values, pa.string()).dictionary_encode()
        return pa.array(self.values, target)


_EXACT = __import__("decimal").Context(prec=100)


@dataclass
class Data:
    """A table: its name and columns."""

    name: str
    columns: list[Column]

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def arrow(self) -> pa.Table:
        """Return the table in Arrow."""
        return pa.table({c.name: c.arrow() for c in self.columns})

    def rows(self) -> list[dict]:
        """Return the rows, each a mapping of names to values."""
        names = [c.name for c in self.columns]
        return [
            dict(zip(names, row, strict=True))
            for row in zip(*(c.values for c in self.columns), strict=True)
        ]

    def keep(self, places: list[int]) -> "Data":
        """Return a table of the rows at these places."""
        return Data(
            self.name, [Column(c.name, c.type, [c.values[p] for p in places]) for c in self.columns]
        )

    def mixed(self, rnd: Random, by_time: bool) -> "Data":
        """Return a table of the same types: some of the rows, their values dealt anew."""
        size = len(self)
        count = rnd.randint(0, size)
        columns = [Column(c.name, c.type, rnd.sample(c.values, count)) for c in self.columns]
        data = Data(self.name, columns)
        if not by_time:
            return data
        times = columns[1].values
        return data.keep(sorted(range(count), key=lambda p: (times[p] is None, times[p] or 0)))


TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "abc",
    "aB c",
    " a ",
    "b",
    "ba",
    "é",
    "aé",
    "ß",
    "%",
    "a_b",
    "a,b,c",
    "zz",
    "日本",
    "0",
    "-12",
]
WILD_FLOATS = [
    0.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    1.5,
    -2.5,
    1e-300,
    1e300,
    5e-324,
    0.1,
    -0.1,
    3.0,
    2.0**53,
    1e15,
]
BASES = {
    None: 1_710_054_000,
    "America/New_York": 1_710_054_000,
    "Europe/Berlin": 1_711_846_800,
    "Australia/Lord_Howe": 1_712_410_200,
    "Asia/Kathmandu": 1_710_054_000,
    "+05:30": 1_710_054_000,
    "America/St_Johns": 1_730_608_200,
}


class Tables:
    """Random tables of one query, which share a clock."""

    def __init__(self, rnd: Random, zone: str | None, decimals: bool):
        self.rnd, self.zone, self.decimals = rnd, zone, decimals
        self.step = rnd.choice([SECOND, SECOND, 60 * SECOND, 600 * SECOND, 3600 * SECOND])
        self.base = BASES[zone] * SECOND - 20 * self.step
        self.base -= self.base % self.step
        if rnd.random() < 0.15:
            self.base -= 60 * 365 * DAY  # before 1970
        self.clock = rnd.choice(["int", "ts", "ntz", "ts", "ntz"])
        self.spread = rnd.choice([10, 40, 40, 100])
        self.null_times = rnd.random() < 0.2
        self.wild = rnd.random() < 0.35

    def make(self, name: str, streamed: bool = False) -> Data:
        """Make a table, in a stream with its rows by time."""
        rnd = self.rnd
        size = rnd.choice([0, 1, 3, 8, 12, 20, 20, 30, 45])
        ids = list(range(size))
        rnd.shuffle(ids)
        columns = [Column("id", Type("int", arrow=rnd.choice([pa.int32(), pa.int64()])), ids)]
        columns.append(self.time(size, streamed))
        columns.append(
            Column(
                "k",
                Type("int", arrow=pa.int32()),
                [self.null(lambda: rnd.randint(0, 3)) for _ in ids],
            )
        )
        made = list(self.makers())
        for kind in rnd.sample(made, rnd.randint(3, 7)):
            columns.append(self.column(kind, size))
        data = Data(name, columns)
        if streamed:
            times = columns[1].values
            order = sorted(range(size), key=lambda p: (times[p] is None, times[p] or 0))
            data = data.keep(order)
        return data

    def null(self, make, share: float = 0.15):
        """Return a value, or at times NULL."""
        return None if self.rnd.random() < share else make()

    def time(self, size: int, streamed: bool) -> Column:
        rnd = self.rnd
        ticks = [rnd.randint(0, self.spread) for _ in range(size)]
        if self.clock == "int":
            arrow = rnd.choice(
                [pa.int64(), pa.int64(), pa.int32(), pa.int16(), pa.uint8(), pa.uint32()]
            )
            values = list(ticks)
            column = Column("t", Type("int", arrow=arrow), values)
        else:
            unit = rnd.choice(UNITS)
            fine = UNIT[unit] if rnd.random() < 0.3 else self.step
            values = [
                self.base + n * self.step + (rnd.randint(0, 3) * fine if fine != self.step else 0)
                for n in ticks
            ]
            zone = rnd.choice(["UTC", "Asia/Tokyo"]) if self.clock == "ts" else None
            column = Column("t", Type(self.clock, arrow=pa.timestamp(unit, zone)), values)
        if self.null_times:
            column.values = [self.null(lambda v=v: v, 0.1) for v in values]
        return column

    def makers(self) -> dict:
        """Return the kinds of columns."""
        names = [
            "i8",
            "i16",
            "i32",
            "i64",
            "u8",
            "u16",
            "u32",
            "u64",
            "f",
            "x",
            "g",
            "b",
            "s",
            "c",
            "day",
            "at",
            "us",
            "gap",
        ]
        return dict.fromkeys(names + (["d5", "d18", "d38", "e"] if self.decimals else []))

    def column(self, kind: str, size: int) -> Column:
        """Make a column of a kind, named after it."""
        rnd = self.rnd
        if kind[0] in "iu" and kind[1:].isdigit():
            signed, bits = kind[0] == "i", int(kind[1:])
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
            arrow = getattr(pa, f"{'' if signed else 'u'}int{bits}")()

            def integer():
                if self.wild and rnd.random() < 0.3:
                    return rnd.choice([low, high, high - 1, low + 1])
                return max(low, rnd.randint(-5, 9))

            return self._filled(kind, Type("int", arrow=arrow), integer, size)
        if kind in ("d5", "d18", "d38", "e"):
            digits, scale = {
                "d5": (5, 2),
                "d18": (18, 6),
                "d38": (38, 18),
                "e": (rnd.choice([20, 38]), 0),
            }[kind]

            def decimal():
                most = 10**digits - 1
                if rnd.random() < 0.2:
                    count = rnd.choice([most, -most, rnd.randint(-most, most)])
                else:
                    count = rnd.randint(-500, 500) * 10 ** max(0, scale - 2)
                return Fraction(count, 10**scale)

            return self._filled(
                kind, Type("dec", digits, scale, pa.decimal128(digits, scale)), decimal, size
            )
        kinds = {
            "f": (Type("f32", arrow=pa.float32()), lambda: single(rnd.choice(WILD_FLOATS))),
            "x": (Type("f64", arrow=pa.float64()), lambda: rnd.choice(WILD_FLOATS)),
            "g": (Type("f64", arrow=pa.float64()), self._mild_float),
            "b": (Type("bool", arrow=pa.bool_()), lambda: rnd.random() < 0.5),
            "s": (Type("str", arrow=pa.string()), lambda: rnd.choice(TEXTS)),
            "c": (
                Type("str", arrow=pa.dictionary(pa.int32(), pa.string())),
                lambda: rnd.choice(TEXTS[:6]),
            ),
            "day": (
                Type("date", arrow=pa.date32()),
                lambda: self.base // DAY + rnd.randint(-40, 40),
            ),
            "at": (Type("ts", arrow=pa.timestamp(rnd.choice(UNITS), "UTC")), self._moment),
            "us": (Type("ntz", arrow=pa.timestamp(rnd.choice(UNITS))), self._moment),
            "gap": (
                Type("dur", arrow=pa.duration(rnd.choice(UNITS))),
                lambda: rnd.randint(-50, 90) * self.step,
            ),
        }
        of, make = kinds[kind]
        column = self._filled(kind, of, make, size)
        if kind in ("at", "us"):
            unit = UNIT[of.arrow.unit]
            column.values = [None if v is None else v // unit * unit for v in column.values]
        return column

    def _filled(self, name: str, of: Type, make, size: int) -> Column:
        share = self.rnd.choice([0.0, 0.1, 0.4])
        return Column(name, of, [self.null(make, share) for _ in range(size)])

    def _mild_float(self) -> float:
        if self.wild and self.rnd.random() < 0.1:
            return self.rnd.choice([math.nan, math.inf, -math.inf, -0.0])
        return self.rnd.randint(-40, 40) / 4

    def _moment(self) -> int:
        if self.rnd.random() < 0.2:
            return self.rnd.randint(-70, 60) * 365 * DAY + self.rnd.randint(0, 10**15)
        return (
            self.base
            + self.rnd.randint(-50, 80) * self.step
            + self.rnd.choice([0, 0, 1, 500_000_000, 999])
        )


def plain(column: pa.ChunkedArray) -> list:
    """Return the values of an Arrow column as the evaluator has them."""
    of = column.type
    if pa.types.is_dictionary(of):
        return column.cast(of.value_type).to_pylist()
    if pa.types.is_timestamp(of) or pa.types.is_duration(of):
        unit = UNIT[of.unit]
        return [None if v is None else v * unit for v in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(of):
        return column.cast(pa.date32()).cast(pa.int32()).to_pylist()
    if pa.types.is_decimal(of):
        return [None if v is None else Fraction(v) for v in column.to_pylist()]
    return column.to_pylist()


def kinds_of(of: pa.DataType) -> set[str]:
    """Return the kinds of SQL that an Arrow type may stand for."""
    if pa.types.is_dictionary(of):
        of = of.value_type
    if pa.types.is_integer(of):
        return {"int"}
    if pa.types.is_decimal(of):
        return {"int", "dec"} if of.scale == 0 else {"dec"}
    if pa.types.is_timestamp(of):
        return {"ts", "ntz"} if of.tz is None else {"ts"}
    tests = {
        "f32": pa.types.is_float32,
        "f64": pa.types.is_float64,
        "bool": pa.types.is_boolean,
        "str": lambda x: pa.types.is_string(x) or pa.types.is_large_string(x),
        "date": pa.types.is_date,
        "dur": pa.types.is_duration,
    }
    return {kind for kind, test in tests.items() if test(of)}
