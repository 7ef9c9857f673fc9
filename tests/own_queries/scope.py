"""What can be written over the columns that stand in a scope."""

import math
from dataclasses import dataclass
from random import Random

from tests.own_queries import expressions as ex
from tests.own_queries.clocks import DAY
from tests.own_queries.expressions import (
    E,
    comparison,
    conjunction,
    disjunction,
    literal,
    negation,
    strict,
)
from tests.own_queries.scope_texts import Texts
from tests.own_queries.scope_times import Times
from tests.own_queries.values import (
    BOOL,
    DUR,
    F32,
    F64,
    INT,
    TEXTS,
    Type,
    single,
)

SIGNS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
KINDS = ["int", "f64", "bool", "str", "date", "ts", "ntz", "dur", "f32"]


@dataclass
class Scope(Texts, Times):
    """Columns as expressions, and what makes further ones of them."""

    rnd: Random
    columns: list[E]
    zone: str | None
    base: int  # a moment near which the times are
    step: int
    decimals: bool = False
    texts: bool = True  # functions that another engine computes, too

    def of(self, *kinds: str) -> list[E]:
        return [e for e in self.columns if e.type.kind in kinds]

    def some(self, depth: int = 2) -> E:
        """Make an expression of any kind."""
        kinds = [k for k in KINDS if self.of(k)] + ["int", "bool"]
        if self.decimals and self.of("dec"):
            kinds += ["dec"] * 6
        return self.make(self.rnd.choice(kinds), depth)

    def make(self, kind: str, depth: int = 2) -> E:
        """Make an expression of a kind."""
        if kind == "dec":
            from tests.own_queries.exact import decimal_of

            return decimal_of(self, depth)
        leaves = self.of(kind)
        if depth <= 0 or (leaves and self.rnd.random() < 0.25):
            return (
                self.rnd.choice(leaves)
                if leaves and self.rnd.random() < 0.9
                else self.constant(kind)
            )
        if self.rnd.random() < 0.2:
            return self.chosen(kind, depth)
        made = getattr(self, kind)(depth)
        return made if made is not None else self.make(kind, 0)

    def constant(self, kind: str) -> E:
        """Make a literal of a kind."""
        rnd = self.rnd
        value = {
            "int": lambda: (
                rnd.choice([0, 1, 2, 3, -1, -4, 7, 100, 2**31, -(2**31)])
                if rnd.random() < 0.3
                else rnd.randint(-4, 8)
            ),
            "f64": lambda: rnd.randint(-20, 20) / 4,
            "f32": lambda: rnd.randint(-20, 20) / 4,
            "bool": lambda: rnd.random() < 0.5,
            "str": lambda: rnd.choice(TEXTS),
            "date": lambda: self.base // DAY + rnd.randint(-30, 30),
            "ts": lambda: self.base + rnd.randint(-10, 60) * self.step,
            "ntz": lambda: self.base + rnd.randint(-10, 60) * self.step,
            "dur": lambda: rnd.randint(-10, 60) * self.step,
        }[kind]()
        if kind == "dur":
            return E(ex.span_text(value, rnd), DUR, lambda row: value)
        if kind == "f32":
            inner = literal(value, F64, None)
            return E(f"CAST({inner} AS FLOAT)", F32, lambda row: single(value))
        return literal(value, Type(kind), self.zone)

    def chosen(self, kind: str, depth: int) -> E:
        """Make a CASE, IF, COALESCE, NULLIF, LEAST or GREATEST of a kind."""
        rnd = self.rnd
        a, b = self.make(kind, depth - 1), self.make(kind, depth - 1)
        form = rnd.choice(["case", "if", "coalesce", "nullif", "least", "greatest", "simple"])
        if kind == "bool" and form in ("least", "greatest", "nullif"):
            form = "case"
        if form == "coalesce":

            def first(row):
                value = a.value(row)
                return b.value(row) if value is None else value

            return E(f"coalesce({a}, {b})", a.type, first)
        if form == "nullif":
            test = comparison("=", a, b, self.zone)
            return E(
                f"nullif({a}, {b})", a.type, lambda row: None if test.value(row) else a.value(row)
            )
        if form in ("least", "greatest"):
            pick = min if form == "least" else max

            def extreme(row):
                values = [v for v in (a.value(row), b.value(row)) if v is not None]
                return pick(values, key=ex.by_value) if values else None

            return E(f"{form}({a}, {b})", a.type, extreme)
        condition = self.condition(depth - 1)
        if form == "if":
            sql = f"if({condition}, {a}, {b})"
            return E(
                sql, a.type, lambda row: a.value(row) if condition.value(row) else b.value(row)
            )
        if form == "simple" and self.of("int"):
            what, key = rnd.choice(self.of("int")), rnd.randint(-2, 4)
            sql = f"CASE {what} WHEN {key if key >= 0 else f'({key})'} THEN {a} ELSE {b} END"
            return E(
                sql, a.type, lambda row: a.value(row) if what.value(row) == key else b.value(row)
            )
        other = rnd.random() < 0.6
        sql = f"CASE WHEN {condition} THEN {a}{f' ELSE {b}' if other else ''} END"
        return E(
            sql,
            a.type,
            lambda row: a.value(row) if condition.value(row) else b.value(row) if other else None,
        )

    def condition(self, depth: int = 2) -> E:
        """Make a truth value."""
        return self.make("bool", max(depth, 1))

    def pair(self, depth: int) -> tuple[E, E]:
        """Make two values that can be compared."""
        rnd = self.rnd
        kinds = [k for k in KINDS if k != "bool" and self.of(k)] or ["int"]
        kind = rnd.choice([*kinds, "int"])
        other = kind
        if rnd.random() < 0.25:
            other = {
                "int": "f64",
                "f64": "int",
                "f32": "f64",
                "date": "ts",
                "ts": "ntz",
                "ntz": "date",
            }.get(kind, kind)
        if self.decimals and self.of("dec") and rnd.random() < 0.4:
            kind, other = "dec", rnd.choice(["dec", "dec", "int", "f64"])
        return self.make(kind, depth - 1), self.make(other, depth - 1)

    def bool(self, depth: int) -> E:
        rnd = self.rnd
        form = rnd.randint(0, 11)
        if form <= 4:
            return comparison(rnd.choice(SIGNS), *self.pair(depth), self.zone)
        if form == 5:
            return rnd.choice([conjunction, disjunction])(
                self.condition(depth - 1), self.condition(depth - 1)
            )
        if form == 6:
            return negation(self.condition(depth - 1))
        if form == 7:
            what = self.some(depth - 1)
            missing = rnd.random() < 0.5
            sql = f"({what} IS {'' if missing else 'NOT '}NULL)"
            return E(sql, BOOL, lambda row: (what.value(row) is None) == missing)
        if form == 8:
            a, b = self.pair(depth)
            c = self.make(b.type.kind, 0)
            low, high = comparison(">=", a, b, self.zone), comparison("<=", a, c, self.zone)
            both = conjunction(low, high)
            if rnd.random() < 0.2:
                return negation(E(f"({a} BETWEEN {b} AND {c})", BOOL, both.value))
            return E(f"({a} BETWEEN {b} AND {c})", BOOL, both.value)
        if form == 9:
            return self.member(depth)
        if form == 10 and self.of("str"):
            return self.text_test(depth)
        if self.of("f64"):
            what = self.make("f64", depth - 1)
            return E(
                f"isnan({what})",
                BOOL,
                lambda row: (v := what.value(row)) is not None and math.isnan(v),
            )
        return comparison("=", *self.pair(depth), self.zone)

    def member(self, depth: int) -> E:
        """Make x IN (constants)."""
        rnd = self.rnd
        kind = rnd.choice([k for k in ("int", "str", "date") if self.of(k)] or ["int"])
        what = self.make(kind, depth - 1)
        values = [self.constant(kind) for _ in range(rnd.randint(1, 4))]
        if rnd.random() < 0.15:
            values.append(literal(None, Type(kind), None))
        out = rnd.random() < 0.3
        inside = disjunction(*(comparison("=", what, v, self.zone) for v in values))
        sql = f"({what} {'NOT ' if out else ''}IN ({', '.join(map(str, values))}))"
        return E(sql, BOOL, negation(inside).value if out else inside.value)

    def int(self, depth: int) -> E:
        rnd = self.rnd
        form = rnd.randint(0, 16)
        a = self.make("int", depth - 1)
        if form <= 4:
            b = self.make("int", depth - 1)
            sign = rnd.choice("+-*+-")
            work = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y}[sign]
            return strict(INT, f"({a} {sign} {b})", work, a, b)
        if form == 5:
            b = self.make("int", depth - 1)
            sql, work = rnd.choice(
                [
                    ("({} % {})", ex.remainder),
                    ("({} DIV {})", ex.divide_whole),
                    ("pmod({}, {})", ex.positive_remainder),
                ]
            )
            return strict(INT, sql.format(a, b), work, a, b)
        if form == 6:
            return strict(INT, f"abs({a})", abs, a)
        if form == 7:
            return strict(INT, f"(- {a})", lambda x: -x, a)
        if form == 8:
            b = self.make("int", depth - 1)
            sign = rnd.choice("&|^")
            work = {"&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y}[sign]
            return strict(INT, f"({a} {sign} {b})", work, a, b)
        if form == 9:
            b = self.condition(depth - 1)
            return strict(INT, f"CAST({b} AS INT)", int, b)
        if form == 10 and self.of("g"):
            return None
        if form in (11, 12) and self.of("ts", "ntz", "date"):
            return self.field(depth)
        if form in (13, 14) and self.of("str") and self.texts:
            return self.measure(depth)
        if form == 15 and self.of("date"):
            b, c = self.make("date", depth - 1), self.make("date", depth - 1)
            return strict(INT, f"datediff({b}, {c})", lambda x, y: x - y, b, c)
        return None

    def f64(self, depth: int) -> E:
        rnd = self.rnd
        form = rnd.randint(0, 11)
        a = self.make("f64", depth - 1)
        if form <= 4:
            b = self.make(rnd.choice(["f64", "f64", "f64", "int", "f32"]), depth - 1)
            if rnd.random() < 0.3:
                a, b = b, a
            if {a.type.kind, b.type.kind} <= {"f32", "int"}:
                return None
            return self.arithmetic(a, b, F64, lambda v: v)
        if form == 5:
            a, b = self.make("int", depth - 1), self.make("int", depth - 1)
            return strict(
                F64,
                f"({a} / {b})",
                lambda x, y: ex.float_divide(ex.as_float(x), ex.as_float(y)),
                a,
                b,
            )
        if form == 6:
            return strict(
                F64, f"sqrt({a})", lambda v: math.nan if v < 0 or math.isnan(v) else math.sqrt(v), a
            )
        if form == 7:
            return strict(F64, f"abs({a})", abs, a)
        if form == 8:
            b = self.make("int", depth - 1)
            return strict(F64, f"CAST({b} AS DOUBLE)", ex.as_float, b)
        if form == 9 and self.of("f32"):
            b = self.make("f32", depth - 1)
            return strict(F64, f"CAST({b} AS DOUBLE)", float, b)
        if form == 10:
            b = self.make("f64", depth - 1)
            return (
                strict(F64, f"nanvl({a}, {b})", lambda x, y: y if math.isnan(x) else x, a, b)
                if False
                else strict(F64, f"(- {a})", lambda v: -v, a)
            )
        digits = rnd.randint(0, 2)
        return strict(F64, f"round({a}, {digits})", lambda v: ex.round_float(v, digits), a)

    def arithmetic(self, a: E, b: E, of: Type, narrow) -> E:
        """Compute with two floats."""
        sign = self.rnd.choice("+-*/%+-*")
        work = {
            "+": ex.float_add,
            "-": lambda x, y: ex.float_add(x, -y),
            "*": ex.float_multiply,
            "/": ex.float_divide,
            "%": ex.float_remainder,
        }[sign]

        def value(x, y):
            result = work(ex.as_float(x), ex.as_float(y))
            return result if result is None else narrow(result)

        return strict(of, f"({a} {sign} {b})", value, a, b)

    def f32(self, depth: int) -> E:
        a, b = self.make("f32", depth - 1), self.make("f32", depth - 1)
        form = self.rnd.randint(0, 3)
        if form == 0:
            return strict(F32, f"abs({a})", abs, a)
        if form == 1:
            return strict(F32, f"(- {a})", lambda v: -v, a)
        sign = self.rnd.choice("+-*")
        work = {"+": ex.float_add, "-": lambda x, y: ex.float_add(x, -y), "*": ex.float_multiply}[
            sign
        ]
        return strict(F32, f"({a} {sign} {b})", lambda x, y: single(work(x, y)), a, b)
