import pytest

from penstock.errors import DeviceError
from penstock.expr import ops
from penstock.expr.node import Op, node, walk
from penstock.hw.hls.check import refusal
from penstock.hw.hls.lower import lower
from penstock.program import GeneralProgram
from penstock.types import BOOL, FLOAT32, STRING, Kind, Type, int_of, integer

INT = int_of(16, nullable=False)
BOOLEAN = BOOL.as_nullable(False)
S, W = ops.key("s", 0, INT), ops.key("w", 0, INT)


def program(predicate, stream=(INT,), window=(INT,)):
    return GeneralProgram(stream, window, predicate)


def text_key(dtype):
    plain = dtype.as_nullable(False)
    return program(node(Op.EQ, (S, W), BOOLEAN), stream=(INT, plain))


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (program(W), r"w0 cannot be built: a predicate is a condition, not integer"),
        (text_key(FLOAT32), r"key s1 .* declare a fixed-point scale for its columns"),
        (text_key(STRING), r"key s1 cannot be built: it is a string value"),
        (text_key(integer(0, 1 << 300)), r"key s1 .* it needs 301 bits, more than 256"),
        (program(ops.eq(ops.mod(S, W), W)), r"s0 % w0 .* its divisor is not a constant"),
        (
            program(node(Op.EQ, (node(Op.MOD, (S, ops.const(0)), INT), W), BOOLEAN)),
            r"s0 % 0 .* its divisor is 0",
        ),
        (
            program(node(Op.EQ, (node(Op.SHL, (S, W), INT), W), BOOLEAN)),
            r"s0 << w0 .* it may shift by -32768 to 32767 bits",
        ),
        (program(ops.eq(S, ops.key("w", 1, INT))), r"w1 .* declares no such key"),
        (
            program(ops.eq(ops.cast(S, int_of(8)), W)),
            r"cast\(s0 as integer\) .* the value may not fit -128..127",
        ),
        (
            program(
                node(
                    Op.EQ,
                    (node(Op.CAST, (S,), Type(Kind.DATE, -99999, 99999, unit="D")), W),
                    BOOLEAN,
                )
            ),
            r"cast\(s0 as date\) .* the cast may round",
        ),
        (program(ops.eq(ops.column("s", "x", INT), W)), r"s.x .* not prepared as a key"),
        (program(node(Op.IS_NULL, (S,), BOOLEAN)), r"s0 is null .* it tests for NULL"),
    ],
)
def test_refusal(refused, message):
    assert refusal(refused) is not None
    with pytest.raises(DeviceError, match=message):
        lower(refused)


def test_a_long_expression_is_not_quoted():
    deep = S
    for _ in range(200):
        deep = ops.bit_xor(deep, ops.bit_and(deep, W))
    text = refusal(program(ops.eq(ops.mod(deep, W), W)))
    assert text == "a part of the predicate (%) cannot be built: its divisor is not a constant"


def test_lowering_leaves_only_what_can_be_built():
    predicate = ops.eq(ops.mod(ops.sub(S, W), ops.const(7)), ops.least(S, W, ops.const(3)))
    lowered = lower(program(predicate))
    left = {n.op for n in walk(lowered)}
    assert Op.MOD not in left
    assert all(len(n.args) == 2 for n in walk(lowered) if n.op is Op.LEAST)
