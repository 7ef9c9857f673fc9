"""Writes and reads slots of a ring through UCX in compiled code, without the interpreter's lock."""

from __future__ import annotations

from penstock.kept_code import kept

from .. import atomics, message
from ..message import FOOTER_BYTES, MORE
from . import library, puts
from .puts import (
    CHANNEL,
    CLOCK,
    DONE_SLOTS,
    IN_ORDER,
    NANOSECONDS,
    SECONDS,
    SLOT_BYTES,
    SLOTS,
    SPIN_NS,
    STAGE,
    STAGED,
    STAGED_END,
    STAGES,
    WORD,
    WORD_BYTES,
    address_of,
    advance,
    call,
    copy,
    order,
    put,
    read,
    reclaim,
    write,
)

#: Bytes between payload and footer that are written with them rather than left out.
_GAP_BYTES = 4096
#: Writes from the stage after one that could not be done at once, as while two sides connect.
_STAGED_WRITES = 64
_SEQUENCE_AT = FOOTER_BYTES - WORD_BYTES
_MORE = MORE << 48
_MONOTONIC, _SECOND_NS = 1, 1_000_000_000
#: Looks at a word between two at the clock, and those after which credits are given early: each
#: costs a write, which a slot that is on its way need not wait for.
_LOOKS, _PATIENT_LOOKS = 8, 32


@kept(atomics, library, message, puts)
def _write_bytes(line, at, source, size):
    """Write bytes of a slot: at once if the way can, else with the footer, from the stage."""
    if not size:
        return
    stages, end = read(line + STAGES), read(line + STAGED_END)
    # What the stage has of a slot is written last, up to the footer: nothing is written behind it.
    if not stages and end < 0:
        if put(line, source, size, at, True, 0):
            return
        stages = _STAGED_WRITES
    write(line + STAGES, max(stages - 1, 0))
    copy(read(line + STAGE) + at, source, size)
    if end != at:
        write(line + STAGED, at)
    write(line + STAGED_END, at + size)


@kept(atomics, library, message, puts)
def write_part(line, at, source):
    """Write a payload, or the next part of one, which may be changed afterwards.

    Parameters
    ----------
    line : int
    at : int
        Byte of the ring.
    source : array of uint8
    """
    _write_bytes(line, at, address_of(source), len(source))


@kept(atomics, library, message, puts)
def write_footer(line, at, first, checksum, sequence):
    """Write staged bytes and the footer of a slot, and its sequence number after they have arrived.

    Parameters
    ----------
    line : int
    at : int
        Byte of the ring.
    first, checksum, sequence : int
        Words of the footer; the channel's number is between the first two.
    """
    stage = read(line + STAGE)
    for place, word in enumerate((first, read(line + CHANNEL), checksum, sequence)):
        write(stage + at + place * WORD_BYTES, word)
    begin, end = read(line + STAGED), read(line + STAGED_END)
    write(line + STAGED_END, -1)
    if end < 0 or at - end > _GAP_BYTES:
        if end >= 0:
            put(line, stage + begin, end - begin, begin, False, 0)
        begin = at
    if read(line + IN_ORDER):
        put(line, stage + begin, at + FOOTER_BYTES - begin, begin, False, 1)
        return
    end = at + _SEQUENCE_AT
    put(line, stage + begin, end - begin, begin, False, 0)
    order(line)
    put(line, stage + end, WORD_BYTES, end, False, 1)


@kept(atomics, library, message, puts)
def write_word(line, value):
    """Write a word, after all earlier reads; only its newest value must arrive."""
    write(read(line + WORD), value)
    order(line)
    put(line, read(line + WORD), WORD_BYTES, 0, False, 0)
    reclaim(line)


@kept(atomics, library, message, puts)
def _until(line, looks, until):
    """Time until which a wait may go on looking; -1 when it is over."""
    if looks % _LOOKS == 0:
        if not read(line + SPIN_NS):
            return -1
        call(read(line + CLOCK), (_MONOTONIC, line + SECONDS))
        now = read(line + SECONDS) * _SECOND_NS + read(line + NANOSECONDS)
        if not looks:
            return now + read(line + SPIN_NS)
        if now >= until:
            return -1
    return until


@kept(atomics, library, message, puts)
def fill_slots(line, slot, sent, source, count, first, is_last):
    """:func:`..filling.fill_slots`, into the other side's memory; a slot is written again only when
    its last write from this side is complete, too. The word is the consumer's count."""
    slots, slot_bytes = read(line + SLOTS), read(line + SLOT_BYTES)
    size, parts = slot_bytes - FOOTER_BYTES, address_of(source)
    for number in range(count):
        looks = until = 0
        while True:
            processed = min(read(read(line + WORD)), read(line + DONE_SLOTS))
            if sent + number - processed < slots:
                break
            until = _until(line, looks, until)
            if until < 0:
                return number
            looks += 1
            advance(line)
        at = slot * slot_bytes
        _write_bytes(line, at, parts + number * size, size)
        goes_on = not (is_last and number == count - 1)
        words = first | (_MORE if goes_on else 0)
        write_footer(line, at + size, words, 0, sent + number + 1)
        slot += 1
        if slot == slots:
            slot = 0
    return count


@kept(atomics, library, message, puts)
def join_slots(line, memory, slot, received, target, at, count, first):
    """:func:`..filling.join_slots`; credits are given after half of the slots, and at the end.

    The word is what the other side is told.

    Parameters
    ----------
    line : int
    memory : int
        Address of the ring.
    slot, received, target, at, count, first
    """
    slots, slot_bytes = read(line + SLOTS), read(line + SLOT_BYTES)
    size, to = slot_bytes - FOOTER_BYTES, address_of(target) + at
    share = max(1, slots // 2)
    owed = joined = looks = until = 0
    while joined < count:
        start = memory + slot * slot_bytes
        footer = start + size
        if read(footer + _SEQUENCE_AT) != received + joined + 1:
            until = _until(line, looks, until)
            if until < 0:
                break
            looks += 1
            if owed and looks > _PATIENT_LOOKS:
                write_word(line, received + joined)
                owed = 0
            advance(line)
            continue
        if (
            read(footer) != first | _MORE
            or read(footer + WORD_BYTES) != read(line + CHANNEL)
            or read(footer + 2 * WORD_BYTES)
        ):
            break
        copy(to + joined * size, start, size)
        looks = 0
        joined += 1
        owed += 1
        if owed >= share:
            write_word(line, received + joined)
            owed = 0
        slot += 1
        if slot == slots:
            slot = 0
    if owed:
        write_word(line, received + joined)
    return joined
