"""Programs as JSON, and back: a received program is never executed, and checked as a whole.

A DAG is a list of nodes in which arguments come before the nodes that use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.errors import PenstockError
from penstock.expr import ops
from penstock.expr.functions import FUNCTIONS
from penstock.expr.node import Expr, Op, node, walk
from penstock.expr.values import Members
from penstock.program import (
    MAX_BAND_TESTS,
    AnyProgram,
    BandProgram,
    GeneralProgram,
    Mode,
    Program,
    WindowProgram,
)
from penstock.types import UNIT_NS, Kind, Type

from .fields import Header, MalformedError, field

#: Nodes of one program, at most; compiled predicates have tens.
MOST_NODES = 100_000
#: Values of one IN list, at most; a query has no room for more.
MOST_VALUES = 200_000
#: Decimal digits after the point, at most: those of Arrow's widest decimal.
MOST_DIGITS = 76
_NUMBERS = ("integer", Kind.FLOAT32.value, Kind.FLOAT64.value)
_CONDITION = Kind.BOOL.value
_TEXTS = (Kind.STRING.value, Kind.BINARY.value)
_MANY = 1 << 31
#: Operations on operands of the result's family: allowed families, least and most operands.
_OF_ONE_FAMILY = {
    **dict.fromkeys((Op.ADD, Op.SUB, Op.MUL, Op.MOD), (_NUMBERS, 2, 2)),
    **dict.fromkeys((Op.NEG, Op.ABS), (_NUMBERS, 1, 1)),
    **dict.fromkeys((Op.LEAST, Op.GREATEST), (_NUMBERS, 2, _MANY)),
    **dict.fromkeys((Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR, Op.SHL, Op.SHR), (("integer",), 2, 2)),
    Op.DIV: (("integer",), 2, 2),
    **dict.fromkeys((Op.BIT_NOT, Op.RAW), (("integer",), 1, 1)),
    **dict.fromkeys((Op.AND, Op.OR), ((_CONDITION,), 1, _MANY)),
    Op.NOT: ((_CONDITION,), 1, 1),
}
#: Most places that a number is shifted by.
_MOST_PLACES = 63


def program_header(program: AnyProgram) -> Header:
    """A program as a part of a header."""
    if isinstance(program, WindowProgram):
        a, b = program_header(program.a), program_header(program.b)
        return {"form": "window", "a": a, "b": b, "rows": [int(n) for n in program.rows]}
    if isinstance(program, BandProgram):
        return {
            "form": "band",
            "tests": program.tests,
            # A table of 256 bits is more than other languages' JSON numbers hold.
            "table": hex(program.table),
            "key_bits": program.key_bits,
            "payload": None if program.payload is None else _type_out(program.payload),
            "unit_bits": program.unit_bits,
        }
    roots = [program.predicate] if program.value is None else [program.predicate, program.value]
    nodes = list(walk(*roots))
    number = {expr: k for k, expr in enumerate(nodes)}
    return {
        "form": "general",
        "stream": [_type_out(t) for t in program.stream],
        "window": [_type_out(t) for t in program.window],
        "nodes": [
            [e.op.name, [number[a] for a in e.args], _type_out(e.type), _attr_out(e)] for e in nodes
        ],
        "predicate": number[program.predicate],
        "value": None if program.value is None else number[program.value],
    }


def any_program_from(header: Any) -> AnyProgram:
    """The program that a header describes, of a range join or a window join.

    Raises
    ------
    MalformedError
        It describes none.
    """
    if not isinstance(header, dict) or header.get("form") != "window":
        return program_from(header)
    rows = field(header, "rows", list)
    if len(rows) != 2 or any(type(n) is not int or not 0 <= n < 1 << 63 for n in rows):
        raise MalformedError(f"windows have the sizes {rows!r:.80}, which are no two integers")
    a, b = (program_from(header.get(side)) for side in "ab")
    return WindowProgram(a, b, (rows[0], rows[1]))


def program_from(header: Any) -> Program:
    """The program of a range join that a header describes.

    Raises
    ------
    MalformedError
        It describes none.
    """
    if not isinstance(header, dict):
        raise MalformedError("a program is an object")
    if header.get("form") == "band":
        return _band(header)
    if header.get("form") == "general":
        return _general(header)
    raise MalformedError(f"a program is band or general, not {header.get('form')!r:.80}")


def modes_from(names: Any) -> frozenset[Mode]:
    """Modes by their names.

    Raises
    ------
    MalformedError
    """
    with _reading("unknown modes", names):
        return frozenset(Mode(name) for name in names)


@contextmanager
def _reading(message: str, value: Any) -> Iterator[None]:
    """Turn errors of reading a part of a description into ones that name it."""
    try:
        yield
    except (TypeError, ValueError, KeyError, OverflowError) as cause:
        raise MalformedError(f"{message} {value!r:.80}") from cause


def _band(header: Header) -> BandProgram:
    tests, key_bits = field(header, "tests", int), field(header, "key_bits", int)
    if not (1 <= tests <= MAX_BAND_TESTS and 2 <= key_bits <= 64):
        raise MalformedError(f"no band program has {tests} tests of {key_bits} bits")
    table = _integer(field(header, "table", str), 16)
    if not 0 <= table < 1 << (1 << tests):
        raise MalformedError(f"the truth table of {tests} tests has {1 << tests} bits")
    described = header.get("payload")
    payload = None if described is None else _type_in(described)
    if payload is not None and not payload.is_integral:
        raise MalformedError(f"the payload of a band program is an integer, not {payload}")
    units = None if header.get("unit_bits") is None else field(header, "unit_bits", int)
    if units is not None and not 2 <= units <= 64:
        raise MalformedError(f"units have codes of 2 to 64 bits, not {units}")
    return BandProgram(tests, table, key_bits, payload, units)


def _general(header: Header) -> GeneralProgram:
    keys = {
        "s": tuple(_type_in(t) for t in field(header, "stream", list)),
        "w": tuple(_type_in(t) for t in field(header, "window", list)),
    }
    described = field(header, "nodes", list)
    if not 0 < len(described) <= MOST_NODES:
        raise MalformedError(f"a predicate has 1 to {MOST_NODES} nodes, not {len(described)}")
    nodes: list[Expr] = []
    for one in described:
        nodes.append(_node(one, nodes, keys))
    predicate = _pick(nodes, header.get("predicate"))
    if predicate.type.kind is not Kind.BOOL:
        raise MalformedError(f"a predicate is a condition, not {predicate.type}")
    value = None if header.get("value") is None else _pick(nodes, header["value"])
    return GeneralProgram(keys["s"], keys["w"], predicate, value)


def _node(described: Any, nodes: Sequence[Expr], keys: dict[str, tuple[Type, ...]]) -> Expr:
    with _reading("a node of a predicate is", described):
        name, arguments, dtype, attr = described
        op = Op[name]
    node_type = _type_in(dtype)
    if not isinstance(arguments, list):
        raise MalformedError(f"a node of a predicate has the arguments {arguments!r:.80}")
    args = tuple(_pick(nodes, number) for number in arguments)
    if op is Op.KEY:
        return _key(attr, args, node_type, keys)
    if op is Op.CONST:
        return _const(attr, args, node_type)
    members = _members(attr, args) if op is Op.IN else None
    function = attr if op is Op.FUNCTION and isinstance(attr, str) else None
    has_attr = members is not None or function is not None
    if op is Op.COLUMN or (attr is not None and not has_attr) or not args:
        raise MalformedError(f"{op.value!r} is no step of a program on {len(args)} values")
    try:
        # The language's rules say which operands an operation takes, and its result.
        _check_operands(op, args, node_type, function)
    except PenstockError as cause:
        raise MalformedError(f"a node of a predicate: {cause}") from cause
    return node(op, args, node_type, function if members is None else members)


def _members(attr: Any, args: tuple[Expr, ...]) -> Members:
    """The values of an IN list: integers for an integer, floats for a float."""
    if not isinstance(attr, list) or len(attr) > MOST_VALUES or len(args) != 1:
        raise MalformedError(f"an IN list has up to {MOST_VALUES} values, and one operand")
    values = [_attr_in(value) for value in attr]
    wanted = float if args[0].type.is_float else int
    if any(type(value) is not wanted for value in values):
        raise MalformedError(f"a list of other values than those of {args[0].type}")
    return Members(values)


def _key(attr: Any, args: tuple[Expr, ...], dtype: Type, keys: dict[str, tuple[Type, ...]]) -> Expr:
    with _reading("a key is given as", attr):
        side, index = attr
        declared = keys[side]
    if args or type(index) is not int or not 0 <= index < len(declared):
        raise MalformedError(f"there is no key {attr!r:.80}")
    if dtype != declared[index].as_nullable(False):
        raise MalformedError(f"key {side}{index} is {declared[index]}, not {dtype}")
    return ops.key(side, index, dtype)


def _const(attr: Any, args: tuple[Expr, ...], const_type: Type) -> Expr:
    value = _attr_in(attr)
    fits = (
        const_type.kind is Kind.BOOL
        if isinstance(value, bool)
        else const_type.is_float
        if isinstance(value, float)
        else const_type.is_integral and const_type.lo <= value <= const_type.hi
    )
    if args or not fits:
        raise MalformedError(f"a constant {attr!r:.80} of type {const_type}")
    return node(Op.CONST, (), const_type, value)


def _pick(nodes: Sequence[Expr], number: Any) -> Expr:
    if type(number) is not int or not 0 <= number < len(nodes):
        raise MalformedError(f"a predicate refers to node {number!r:.80}, which is not there yet")
    return nodes[number]


def _attr_out(expr: Expr) -> Any:
    if expr.op is Op.KEY:
        return list(expr.attr)
    if expr.op is Op.FUNCTION:
        return expr.attr
    if expr.op is Op.IN:
        return [_value_out(value) for value in expr.attr.values]
    return _value_out(expr.attr) if expr.op is Op.CONST else None


def _value_out(value: Any) -> list:
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, int):
        return ["int", str(value)]
    if isinstance(value, float):
        # As text, since JSON has no infinity and no NaN; in hexadecimal, since that is exact.
        return ["float", value.hex()]
    raise MalformedError(f"a program for a device has the constant {value!r}")


def _attr_in(attr: Any) -> bool | int | float:
    with _reading("a constant is given as", attr):
        kind, text = attr
        if kind == "bool" and isinstance(text, bool):
            return text
        if kind == "float":
            return float.fromhex(text)
    if kind == "int" and isinstance(text, str):
        return _integer(text, 10)
    raise MalformedError(f"a constant is given as {attr!r:.80}")


def _integer(text: str, base: int) -> int:
    try:
        value = int(text, base)
    except ValueError as cause:
        raise MalformedError(f"{text!r:.80} is no integer") from cause
    if value.bit_length() > ops.MAX_BITS:
        raise MalformedError(f"an integer of {value.bit_length()} bits is no key or constant")
    return value


def _type_out(dtype: Type) -> list:
    digits = [dtype.digits] if dtype.digits else []
    ends = str(dtype.lo), str(dtype.hi)
    return [dtype.kind.value, *ends, dtype.scale, dtype.unit, dtype.nullable, *digits]


def _type_in(described: Any) -> Type:
    with _reading("a type is given as", described):
        name, low, high, scale, unit, nullable, *optional = described
        (digits,) = optional or (0,)
        kind = Kind(name)
    plain = all(isinstance(text, str) for text in (low, high, unit))
    counts = all(type(number) is int and 0 <= number <= MOST_DIGITS for number in (scale, digits))
    if not (plain and counts and isinstance(nullable, bool)):
        raise MalformedError(f"a type is given as {described!r:.80}")
    if unit not in ("", *UNIT_NS):
        raise MalformedError(f"no type has the unit {unit!r:.80}")
    ends = _integer(low, 10), _integer(high, 10)
    parsed = Type(kind, *ends, scale, unit, nullable, digits=digits)
    if parsed.lo > parsed.hi or not (parsed.is_integral or parsed.is_float or kind is Kind.BOOL):
        raise MalformedError(f"no key or value has the type {described!r:.80}")
    return parsed


def _check_operands(
    op: Op, args: Sequence[Expr], result: Type, function: str | None = None
) -> None:
    """Refuse an operation on operands that it does not take.

    Integers of every kind, scale and unit are integers here, since rewrites move between them.

    Parameters
    ----------
    op : Op
        Of a node with operands.
    args : sequence of Expr
    result : Type
        The node's claimed type.
    function : str, optional
        Of FUNCTION: which one.

    Raises
    ------
    ExprTypeError
        The operation does not take these operands, gives another kind of value, or values outside
        the bounds of ``result``.
    """
    families = [_family(a.type) for a in args]
    is_call = op is Op.FUNCTION
    if not (
        _calls(function, families, result) if is_call else _takes(op, families, _family(result))
    ):
        shown = ", ".join(str(a.type) for a in args)
        raise ops.ExprTypeError(f"`{op.value}` does not give {result} of {shown or 'no operands'}")
    if op in (Op.SHL, Op.SHR) and not 0 <= args[1].type.lo <= args[1].type.hi <= _MOST_PLACES:
        raise ops.ExprTypeError(
            f"`{op.value}` shifts by 0 to {_MOST_PLACES}, not by {args[1].type}"
        )
    inferred = ops.typed(op, args, result).type
    if inferred.is_integral and not result.lo <= inferred.lo <= inferred.hi <= result.hi:
        raise ops.ExprTypeError(
            f"`{op.value}` gives {inferred.lo}..{inferred.hi}, not {result.lo}..{result.hi}"
        )


def _calls(function: str | None, args: list[str], result: Type) -> bool:
    signature = FUNCTIONS.get(function or "")
    return (
        signature is not None
        and args == [Kind.FLOAT64.value] * signature.arity
        and _family(result) == _family(signature.type)
    )


def _family(dtype: Type) -> str:
    return "integer" if dtype.is_integral else dtype.kind.value


def _takes(op: Op, args: list[str], result: str) -> bool:
    if op in _OF_ONE_FAMILY:
        families, least, most = _OF_ONE_FAMILY[op]
        return result in families and least <= len(args) <= most and set(args) == {result}
    if op is Op.CAST:
        return result in _NUMBERS and len(args) == 1 and args[0] in (*_NUMBERS, _CONDITION)
    if op is Op.CASE:
        conditions, values = set(args[:-1:2]), {*args[1::2], args[-1]}
        return len(args) % 2 == 1 and conditions == {_CONDITION} and values == {result}
    if result != _CONDITION:
        return False
    if op in (Op.IS_NULL, Op.IN):
        return len(args) == 1
    if op in (Op.LT, Op.LE, Op.EQ, Op.PREFIX):
        is_pair = len(args) == 2 and args[0] == args[1]
        return is_pair and (op is not Op.PREFIX or args[0] in _TEXTS)
    return False
