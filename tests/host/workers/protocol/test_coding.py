"""Messages as bytes and back, and bytes that are none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.fields import MalformedError
from penstock.host.workers.protocol.coding import BODY_OFFSET, MOST_FEEDS, decode, encode
from penstock.host.workers.protocol.messages import (
    DealtRows,
    DeltaBlock,
    EpochEnd,
    Mark,
    Message,
    OutputRows,
    PartWritten,
    Promise,
    Withdrawal,
)
from penstock.plan.window import FOREVER, NEVER
from tests.kit.effort import examples

INCARNATIONS = st.integers(0, 2**32 - 1)
NUMBERS = st.integers(1, 2**64 - 1)
COUNTS = st.integers(0, 2**64 - 1)
FEEDS = st.integers(0, MOST_FEEDS)
TIMES = st.one_of(st.integers(NEVER, FOREVER - 1), st.sampled_from([NEVER, -1, 0, FOREVER]))
BODIES = st.binary(max_size=40)
PROMISES = st.dictionaries(FEEDS, TIMES, max_size=4).map(lambda told: tuple(sorted(told.items())))

MESSAGES = st.one_of(
    st.builds(DeltaBlock, INCARNATIONS, NUMBERS, st.integers(0, 2**32 - 1), BODIES),
    st.builds(EpochEnd, INCARNATIONS, NUMBERS, st.integers(0, 2**32 - 1), COUNTS, COUNTS, PROMISES),
    st.builds(Mark, INCARNATIONS, NUMBERS),
    st.builds(DealtRows, INCARNATIONS, NUMBERS, FEEDS, COUNTS, BODIES),
    st.builds(Promise, INCARNATIONS, FEEDS, TIMES),
    st.builds(Withdrawal, INCARNATIONS, FEEDS),
    st.builds(OutputRows, INCARNATIONS, NUMBERS, BODIES),
    st.builds(PartWritten, INCARNATIONS, NUMBERS, BODIES, BODIES),
)


def joined(message: Message) -> bytes:
    return b"".join(bytes(piece) for piece in encode(message))


@settings(max_examples=examples(200))
@given(message=MESSAGES)
def test_messages_come_back(message: Message):
    assert decode(message.kind, joined(message)) == message


@settings(max_examples=examples(200))
@given(message=MESSAGES, data=st.data())
def test_a_short_message_is_refused_or_another(message: Message, data: st.DataObject):
    payload = joined(message)
    size = data.draw(st.integers(0, len(payload) - 1))
    try:
        shorter: Any = decode(message.kind, payload[:size])
    except MalformedError:
        return
    # Only the end of a body may go unnoticed here: what the body holds has checks of its own.
    held = "rows" if isinstance(message, PartWritten) else "body"
    assert replace(message, **{held: getattr(shorter, held)}) == shorter


@settings(max_examples=examples(300))
@given(payload=st.binary(max_size=80), kind=st.sampled_from(["DELTA", "END", "MARK", "CONTROL"]))
def test_any_bytes_are_a_message_or_malformed(payload: bytes, kind: str):
    try:
        message = decode(kind, payload)
    except MalformedError:
        return
    assert decode(kind, joined(message)) == message


def test_a_message_under_another_kind():
    with pytest.raises(MalformedError, match=r"of kind END begins with code 3, which stands for M"):
        decode("END", joined(Mark(1, 1)))


def test_an_unknown_code():
    with pytest.raises(MalformedError, match=r"code 99, which stands for nothing"):
        decode("MARK", b"\x63" + bytes(20))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (DeltaBlock(1, 0, 0, b""), "its epoch is 0"),
        (EpochEnd(1, 0, 0, 0, 0, ()), "its epoch is 0"),
        (Mark(1, 0), "its number is 0"),
        (EpochEnd(1, 1, 0, 0, 0, ((1, 0), (1, 2))), "its feeds are not in order"),
    ],
)
def test_what_is_never_written(message: Message, why: str):
    with pytest.raises(MalformedError, match=why):
        decode(message.kind, joined(message))


def test_a_message_that_is_too_long():
    with pytest.raises(MalformedError, match="3 bytes too long"):
        decode("MARK", joined(Mark(1, 1)) + b"abc")
    with pytest.raises(MalformedError, match="15 bytes for 1 promises"):
        decode("END", joined(EpochEnd(1, 1, 0, 0, 0, ((1, 5),))) + b"abc")


def test_an_end_is_small():
    assert len(joined(EpochEnd(1, 1, 0, 0, 0, ((0, 10),)))) == 49


@pytest.mark.parametrize(
    "message", [DeltaBlock(1, 1, 0, b"x"), DealtRows(1, 1, 0, 0, b"x"), OutputRows(1, 1, b"x")]
)
def test_bodies_are_aligned_and_not_copied(message: Message):
    payload = bytearray(joined(message))
    body: memoryview = decode(message.kind, payload).body  # type: ignore[union-attr]
    payload[BODY_OFFSET] = ord("y")
    assert bytes(body) == b"y"
