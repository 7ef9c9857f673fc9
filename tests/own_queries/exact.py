"""Decimals by the rules of Spark's types: digits, places, HALF_UP, NULL beyond 38 digits."""

from fractions import Fraction

from tests.own_queries import expressions as ex
from tests.own_queries.expressions import E, literal, strict
from tests.own_queries.values import Type

MOST = 38
DIGITS = {"i8": 3, "i16": 5, "i32": 10, "i64": 20, "k": 10}


def settled(digits: int, scale: int) -> Type:
    """Return the type that a rule asks for, with at most 38 digits and six places if it can."""
    if digits > MOST:
        whole = digits - scale
        scale = max(MOST - whole, min(scale, 6))
        digits = MOST
    return Type("dec", digits, scale)


def rounded(value: Fraction, of: Type) -> Fraction | None:
    """Round HALF_UP to a type; NULL where it has no room."""
    count = abs(value) * 10**of.scale
    whole = (2 * count.numerator + count.denominator) // (2 * count.denominator)
    if whole >= 10**of.digits:
        return None
    return Fraction(-whole if value < 0 else whole, 10**of.scale)


def result(sign: str, a: Type, b: Type) -> Type:
    """Return the type of an operator."""
    scale, whole = max(a.scale, b.scale), max(a.digits - a.scale, b.digits - b.scale)
    if sign in "+-":
        return settled(whole + scale + 1, scale)
    if sign == "*":
        return settled(a.digits + b.digits + 1, a.scale + b.scale)
    if sign == "/":
        places = max(6, a.scale + b.digits + 1)
        return settled(a.digits - a.scale + b.scale + places, places)
    return settled(min(a.digits - a.scale, b.digits - b.scale) + scale, scale)


WORK = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: None if y == 0 else x / y,
    "%": ex.remainder,
}


def constant(scope) -> E:
    """Make a decimal as it is written: as many digits as it shows."""
    rnd = scope.rnd
    scale = rnd.choice([1, 2, 2, 4])
    value = Fraction(rnd.choice([rnd.randint(-500, 500), rnd.randint(-9, 9), 10**9 + 1]), 10**scale)
    whole = len(str(abs(int(value)))) if abs(value) >= 1 else 0
    return literal(value, Type("dec", max(whole + scale, 1), scale), None)


def leaf(scope) -> E:
    columns = scope.of("dec")
    return scope.rnd.choice(columns) if columns and scope.rnd.random() < 0.8 else constant(scope)


def operand(scope, depth: int) -> E:
    """Make a decimal, or an integer that counts as one."""
    rnd = scope.rnd
    if rnd.random() < 0.2:
        named = [e for e in scope.of("int") if e.sql.split(".")[-1] in DIGITS]
        if named and rnd.random() < 0.6:
            e = rnd.choice(named)
            return E(e.sql, Type("dec", DIGITS[e.sql.split(".")[-1]], 0), e.value)
        value = rnd.randint(-120, 120)
        e = literal(value, Type("int"), None)
        return E(e.sql, Type("dec", len(str(abs(value))), 0), e.value)
    return decimal_of(scope, depth - 1)


def decimal_of(scope, depth: int) -> E:
    """Make a decimal expression."""
    rnd = scope.rnd
    if depth <= 0 or rnd.random() < 0.2:
        return leaf(scope)
    form = rnd.randint(0, 9)
    if form <= 5:
        a, b = decimal_of(scope, depth - 1), operand(scope, depth)
        if rnd.random() < 0.2:
            a, b = b, a
        sign = rnd.choice("+-*/%+-*/")
        of = result(sign, a.type, b.type)

        def value(x, y):
            made = WORK[sign](Fraction(x), Fraction(y))
            return None if made is None else rounded(made, of)

        return strict(of, f"({a} {sign} {b})", value, a, b)
    if form == 6:
        a = decimal_of(scope, depth - 1)
        return strict(a.type, f"(- {a})", lambda v: -v, a)
    if form == 7:
        a = decimal_of(scope, depth - 1)
        return strict(a.type, f"abs({a})", abs, a)
    return choice(scope, depth)


def choice(scope, depth: int) -> E:
    """Make a CASE, COALESCE, LEAST or GREATEST of decimals, where no digit is given up."""
    rnd = scope.rnd
    a, b = decimal_of(scope, depth - 1), decimal_of(scope, depth - 1)
    scale, whole = (
        max(a.type.scale, b.type.scale),
        max(a.type.digits - a.type.scale, b.type.digits - b.type.scale),
    )
    if whole + scale > MOST:
        return a
    of = Type("dec", whole + scale, scale)
    form = rnd.choice(["coalesce", "least", "greatest", "case"])
    if form == "case":
        test = scope.condition(1)
        sql = f"CASE WHEN {test} THEN {a} ELSE {b} END"
        return E(sql, of, lambda row: a.value(row) if test.value(row) else b.value(row))

    def value(row):
        values = [v for v in (a.value(row), b.value(row)) if v is not None]
        if form == "coalesce" or not values:
            return values[0] if values else None
        return min(values) if form == "least" else max(values)

    return E(f"{form}({a}, {b})", of, value)
