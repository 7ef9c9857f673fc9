"""Fills and empties several slots of a ring in compiled code, without the interpreter's lock."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from penstock.kept_code import kept

from . import atomics, message
from .atomics import intrinsic, load_word, store_word
from .message import FOOTER_BYTES, MORE

_FOOTER_WORDS = FOOTER_BYTES // 8
_MORE = MORE << 48


@intrinsic
def copy_bytes(typingctx, to, at, source, start, nbytes):
    """The C library's memcpy between arrays of uint8; nothing is checked."""

    def codegen(context, builder, signature, args):
        target, origin = (
            builder.gep(
                context.make_array(signature.args[k])(context, builder, args[k]).data,
                [args[k + 1]],
            )
            for k in (0, 2)
        )
        cgutils.raw_memcpy(builder, target, origin, args[4], ir.Constant(ir.IntType(64), 1))
        return context.get_dummy_value()

    return types.void(to, types.int64, source, types.int64, types.int64), codegen


@kept(atomics, message)
def has_part(words, footer, first, channel):
    """Whether a footer says: full slot of a message that continues in the next slot.

    Parameters
    ----------
    words : array of uint64
    footer : int
    first, channel : int
        Those of :func:`fill_slots`.
    """
    return (
        types.int64(words[footer]) == first | _MORE
        and types.int64(words[footer + 1]) == channel
        and words[footer + 2] == 0
    )


@kept(atomics, message)
def fill_slots(
    memory, words, begin, slots, slot_bytes, slot, sent, source, count, first, channel, is_last,
    credit, spins,
):  # fmt: skip
    """Copy parts of a buffer into slots as credits come, and publish each by a release store.

    Parameters
    ----------
    memory : array of uint8, shape (n,)
        The ring's.
    words : array of uint64, shape (n / 8,)
        The same memory.
    begin, slots, slot_bytes : int
        Byte at which the slots begin, their number, and bytes of each.
    slot, sent : int
        The first one to fill, and the sequence number before its own.
    source : array of uint8
        ``count`` times as many bytes as a slot takes.
    count : int
    first, channel : int
        The first two words of all footers, but for the flag.
    is_last : bool
        Whether the last slot ends the message.
    credit : int
        Word of the consumer's count.
    spins : int
        Looks at that word without a credit, in all, before it returns.

    Returns
    -------
    int
        Slots that were filled, 0 to ``count``. Fewer if no credit came, or an impossible count.
    """
    size = slot_bytes - FOOTER_BYTES
    processed = types.int64(load_word(words, credit))
    for number in range(count):
        while sent + number - processed >= slots:
            spins -= 1
            if spins < 0:
                return number
            processed = types.int64(load_word(words, credit))
        if processed > sent + number:
            return number
        start = begin + slot * slot_bytes
        copy_bytes(memory, start, source, number * size, size)
        at = (start + size) // 8
        goes_on = not (is_last and number == count - 1)
        words[at] = first | (_MORE if goes_on else 0)
        words[at + 1] = channel
        words[at + 2] = 0
        store_word(words, at + _FOOTER_WORDS - 1, types.uint64(sent + number + 1))
        slot += 1
        if slot == slots:
            slot = 0
    return count


@kept(atomics, message)
def join_slots(
    memory, words, begin, slots, slot_bytes, slot, received, target, at, count, first, channel,
    credit, spins,
):  # fmt: skip
    """Copy the payloads of slots as they come, and give their credits by release stores.

    It stops before the first slot that does not come, or that is anything but a full part of a
    message that goes on.

    Parameters
    ----------
    memory, words, begin, slots, slot_bytes, slot, first, channel, credit
        Those of :func:`fill_slots`.
    received : int
        The sequence number before the first slot's; all up to it are processed.
    target : array of uint8
    at : int
        Position of the first payload in ``target``; the others follow.
    count : int
        Slots, at most; the target has room for them.
    spins : int
        Looks at a slot that has not come, in all, before it returns.

    Returns
    -------
    int
        Slots that were copied.
    """
    size = slot_bytes - FOOTER_BYTES
    for number in range(count):
        start = begin + slot * slot_bytes
        footer = (start + size) // 8
        while load_word(words, footer + _FOOTER_WORDS - 1) != types.uint64(received + number + 1):
            spins -= 1
            if spins < 0:
                return number
        if not has_part(words, footer, first, channel):
            return number
        copy_bytes(target, at + number * size, memory, start, size)
        # At once: no call of Python is spent on it, and the producer waits in compiled code, too.
        store_word(words, credit, types.uint64(received + number + 1))
        slot += 1
        if slot == slots:
            slot = 0
    return count
