"""The monitor's rules on sequences by hand: what AXI allows passes, what it forbids is told."""

import pytest

from tests.hw.cocotb.rules import INCR, Bursts, Lite, Stability

ALL = (1 << 64) - 1


@pytest.fixture
def told():
    return []


@pytest.fixture
def bursts(told):
    return Bursts("port", 64, 16, 2, told.append)


def test_a_stalled_channel_that_holds(told):
    stability = Stability("W", told.append)
    for valid, ready, payload in ((0, 0, 1), (1, 0, 2), (1, 0, 2), (1, 1, 2), (1, 1, 3), (0, 1, 4)):
        stability.cycle(bool(valid), bool(ready), payload)
    assert told == []


def test_a_stalled_channel_that_does_not(told):
    stability = Stability("W", told.append)
    for valid, payload in ((True, 1), (True, 2), (False, 2)):
        stability.cycle(valid, False, payload)
    assert told == [
        "W: the payload changed while it was stalled",
        "W: VALID was dropped before READY",
    ]


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        ((4096 - 128, 1, 6, INCR), None),
        ((4096 - 64, 1, 6, INCR), "a burst across 4 KiB"),
        ((32, 0, 6, INCR), "a burst from a misaligned address"),
        ((0, 0, 5, INCR), "a burst of narrow words"),
        ((0, 0, 6, 0), "a burst that is not INCR"),
    ],
)
def test_requests(bursts, told, request_, what):
    bursts.read_request(0, *request_)
    bursts.write_request(*request_)
    assert told == ([] if what is None else [f"port: {what}"] * 2)


def test_more_than_there_is_room(bursts, told):
    bursts.read_request(0, 0, 15, 6, INCR)
    bursts.read_request(1, 0, 15, 6, INCR)
    bursts.read_word(0)
    bursts.read_request(0, 0, 0, 6, INCR)
    assert told == []
    bursts.read_request(0, 0, 0, 6, INCR)
    assert told == ["port: more words were asked for than there is room"]
    for _ in range(3):
        bursts.write_request(0, 0, 6, INCR)
    assert told[1:] == ["port: more bursts are without an answer than may be"]


def test_last(bursts, told):
    bursts.write_request(0, 1, 6, INCR)
    bursts.write_word(False, ALL)
    bursts.write_word(True, ALL)
    bursts.answer()
    bursts.finish()
    assert told == []
    bursts.write_request(0, 1, 6, INCR)
    bursts.write_word(True, ALL)
    bursts.write_word(False, ALL - 1)
    bursts.write_word(True, ALL)
    assert told == [
        "port: WLAST before the last word",
        "port: a word with bytes left out",
        "port: no WLAST with the last word",
        "port: a word without a request",
    ]


@pytest.mark.parametrize("kind", ["read_request", "write_request"])
def test_a_burst_that_stays_open(bursts, told, kind):
    ident = (0,) if kind == "read_request" else ()
    getattr(bursts, kind)(*ident, 0, 0, 6, INCR)
    bursts.finish()
    assert told == ["port: the task ended before its bursts did"]


def test_an_answer_that_is_kept_waiting(bursts, told):
    bursts.waiting("R", valid=False, ready=False)
    bursts.waiting("R", valid=True, ready=True)
    assert told == []
    bursts.waiting("B", valid=True, ready=False)
    assert told == ["port: BREADY was low for an answer"]


def test_answers_of_registers(told):
    lite = Lite("port", told.append)
    for channel in ("W", "AW", "AR"):
        lite.handshake(channel)
    lite.answer("B", True)
    lite.answer("R", True)
    assert told == []
    lite.handshake("AW")
    lite.answer("B", False)
    assert told == ["port: an answer on B before W", "port: an answer on B that is not OKAY"]
