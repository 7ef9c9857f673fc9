"""Calls of UCX from compiled code: writes into the memory of the other side, one by one or slots.

A *line* is what these functions know of the way to the other side: an array of int64, by the names
below. What has failed stays so, and then nothing is written any more: the process at the other end
is gone, and waits end with that.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from ...kept_code import kept
from .. import atomics, filling
from ..atomics import fence_all, intrinsic, load_word
from ..filling import copy_bytes, has_part
from ..message import FOOTER_BYTES, MORE
from .library import LAST_ERROR

#: Places of a line: functions, handles, what the way is like, and what changes.
(
    PUT, FENCE, PROGRESS, CHECK, FREE, CLOCK,
    WORKER, ENDPOINT, KEY, REMOTE, AT_ONCE, LATER,
    SPIN_NS, IN_ORDER, STAGES, STAGED, STAGED_END,
    FAILED, FIRST, NEXT, DONE_SLOTS, SECONDS, NANOSECONDS,
    LINE,
) = range(24)  # fmt: skip
#: Requests of a slot, at most: payload, footer, sequence number.
REQUESTS = 3
#: Bytes between payload and footer that are written with them rather than around them.
_GAP_BYTES = 4096
_WORD_BYTES = 8
_FOOTER_WORDS = FOOTER_BYTES // _WORD_BYTES
_MORE = MORE << 48
_STATUS_BITS = 0xFF
_MONOTONIC, _SECOND_NS = 1, 1_000_000_000
#: Looks at a word between two at the clock, and those after which credits are given early: each
#: is a write, for which a slot that is under way already need not wait.
_LOOKS, _PATIENT_LOOKS = 8, 32


@intrinsic
def _call(typingctx, function, arguments):
    """Call a function by its address, with words; what it returns, of which bits may be noise."""

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        values = [builder.extract_value(args[1], k) for k in range(signature.args[1].count)]
        pointer = ir.FunctionType(word, [word] * len(values)).as_pointer()
        return builder.call(builder.inttoptr(args[0], pointer), values)

    return types.int64(types.int64, arguments), codegen


@intrinsic
def address_of(typingctx, array):
    """Where an array begins."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), codegen


@kept(atomics, filling)
def advance(line):
    """Let transfers go on, and forget those that are complete."""
    if line[PROGRESS]:
        _call(line[PROGRESS], (line[WORKER],))


@kept(atomics, filling)
def reclaim(line, requests, ends):
    """Free the requests of complete writes, in order; count the slots that they were the end of."""
    while line[FIRST] < line[NEXT] and line[CHECK]:
        place = line[FIRST] % len(requests)
        request = requests[place]
        if request:
            status = _call(line[CHECK], (request,)) & _STATUS_BITS
            if status == 1:
                return
            if status:
                line[FAILED] = 1
            _call(line[FREE], (request,))
        line[DONE_SLOTS] += ends[place]
        line[FIRST] += 1


@kept(atomics, filling)
def _put(line, requests, ends, source, nbytes, remote, at_once, ends_slot):
    """Write bytes; False if they cannot be copied at once and that was asked for."""
    if line[FAILED]:
        return True
    params = line[AT_ONCE] if at_once else line[LATER]
    found = _call(line[PUT], (line[ENDPOINT], source, nbytes, remote, line[KEY], params))
    if LAST_ERROR <= found < 0:
        if at_once:
            return False
        line[FAILED] = 1
        return True
    if found or (ends_slot and line[FIRST] < line[NEXT]):
        # Requests end in order; a write that is complete waits for those before it.
        if line[NEXT] - line[FIRST] >= len(requests):
            reclaim(line, requests, ends)
            while line[NEXT] - line[FIRST] >= len(requests) and not line[FAILED]:
                advance(line)
                reclaim(line, requests, ends)
        place = line[NEXT] % len(requests)
        requests[place] = found
        ends[place] = ends_slot
        line[NEXT] += 1
    elif ends_slot:
        line[DONE_SLOTS] += ends_slot
    return True


@kept(atomics, filling)
def write_part(line, requests, ends, stage, at, source):
    """Write a payload, or a part of one: at once if the way can, else with the footer.

    Parameters
    ----------
    line, requests, ends : arrays
    stage : array of uint8
        A ring like that of the other side, of this one's own.
    at : int
        Byte of the ring.
    source : array of uint8
    """
    size = len(source)
    if not size:
        return
    if not line[STAGES]:
        if _put(line, requests, ends, address_of(source), size, line[REMOTE] + at, True, 0):
            return
        line[STAGES] = 1
    copy_bytes(stage, at, source, 0, size)
    if line[STAGED_END] != at:
        line[STAGED] = at
    line[STAGED_END] = at + size


@kept(atomics, filling)
def write_footer(line, requests, ends, stage, at, sequence):
    """Write the footer that the stage has and what else it has of this slot, and the sequence
    number when all before it has come."""
    words = stage[at : at + FOOTER_BYTES].view(types.uint64)
    words[_FOOTER_WORDS - 1] = sequence
    source, remote = address_of(stage), line[REMOTE]
    begin, end = line[STAGED], line[STAGED_END]
    line[STAGED] = line[STAGED_END] = -1
    if end < 0 or at - end > _GAP_BYTES:
        if end > begin:
            _put(line, requests, ends, source + begin, end - begin, remote + begin, False, 0)
        begin = at
    end = at + FOOTER_BYTES
    if line[IN_ORDER]:
        _put(line, requests, ends, source + begin, end - begin, remote + begin, False, 1)
        return
    end -= _WORD_BYTES
    _put(line, requests, ends, source + begin, end - begin, remote + begin, False, 0)
    fence_all()
    _call(line[FENCE], (line[WORKER],))
    _put(line, requests, ends, source + end, _WORD_BYTES, remote + end, False, 1)


@kept(atomics, filling)
def write_word(line, requests, ends, words, value):
    """Write a word of which only the newest value counts, after all that was read before."""
    words[0] = value
    fence_all()
    _call(line[FENCE], (line[WORKER],))
    _put(line, requests, ends, address_of(words), _WORD_BYTES, line[REMOTE], False, 0)
    reclaim(line, requests, ends)


@kept(atomics, filling)
def read_count(line, requests, ends, words):
    """The consumer's count; transfers go on."""
    advance(line)
    reclaim(line, requests, ends)
    return load_word(words, 0)


@kept(atomics, filling)
def _until(line, looks, until):
    """Until when a wait that has looked so often may look again; -1 when that is over."""
    if looks % _LOOKS == 0:
        if not line[SPIN_NS]:
            return -1
        _call(line[CLOCK], (_MONOTONIC, address_of(line) + SECONDS * _WORD_BYTES))
        now = line[SECONDS] * _SECOND_NS + line[NANOSECONDS]
        if not looks:
            return now + line[SPIN_NS]
        if now >= until:
            return -1
    return until


@kept(atomics, filling)
def look(line, words, place):
    """Load a sequence number; transfers go on."""
    advance(line)
    return load_word(words, place)


@kept(atomics, filling)
def fill_slots(
    line, requests, ends, stage, credit, slots, slot_bytes, slot, sent, source, count, first,
    channel, is_last,
):  # fmt: skip
    """:func:`..filling.fill_slots`, into the other side's memory; a slot is written again only when
    its last write from this side is complete, too."""
    size = slot_bytes - FOOTER_BYTES
    for number in range(count):
        looks = until = 0
        while True:
            processed = min(types.int64(load_word(credit, 0)), line[DONE_SLOTS])
            if sent + number - processed < slots:
                break
            until = _until(line, looks, until)
            if until < 0:
                return number
            looks += 1
            advance(line)
            reclaim(line, requests, ends)
        at = slot * slot_bytes
        write_part(line, requests, ends, stage, at, source[number * size : (number + 1) * size])
        words = stage[at + size : at + slot_bytes].view(types.uint64)
        goes_on = not (is_last and number == count - 1)
        words[0] = first | (_MORE if goes_on else 0)
        words[1] = channel
        words[2] = 0
        write_footer(line, requests, ends, stage, at + size, types.uint64(sent + number + 1))
        slot += 1
        if slot == slots:
            slot = 0
    return count


@kept(atomics, filling)
def join_slots(
    line, requests, ends, memory, words, given, slots, slot_bytes, slot, received, target, at,
    count, first, channel,
):  # fmt: skip
    """:func:`..filling.join_slots`; credits are given after half of the slots, and at the end."""
    size = slot_bytes - FOOTER_BYTES
    share = max(1, slots // 2)
    owed = joined = looks = until = 0
    while joined < count:
        start = slot * slot_bytes
        wanted = types.uint64(received + joined + 1)
        if load_word(words, (start + slot_bytes) // _WORD_BYTES - 1) != wanted:
            until = _until(line, looks, until)
            if until < 0:
                break
            looks += 1
            if owed and looks > _PATIENT_LOOKS:
                write_word(line, requests, ends, given, types.uint64(received + joined))
                owed = 0
            advance(line)
            continue
        if not has_part(words, (start + size) // _WORD_BYTES, first, channel):
            break
        copy_bytes(target, at + joined * size, memory, start, size)
        looks = 0
        joined += 1
        owed += 1
        if owed >= share:
            write_word(line, requests, ends, given, types.uint64(received + joined))
            owed = 0
        slot += 1
        if slot == slots:
            slot = 0
    if owed:
        write_word(line, requests, ends, given, types.uint64(received + joined))
    return joined
