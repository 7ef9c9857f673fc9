"""Calls of UCX from compiled code: writes into the memory of the other side.

A *line* is what these functions know of a way to the other side: words at an address, by the names
below. Only numbers are passed on, since Numba counts references to arrays by instructions that wait
for all stores before. What has failed stays so, and then nothing is written any more: the process
at the other end is gone, and waits end with that.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from penstock.kept_code import kept

from .. import atomics
from ..atomics import intrinsic
from . import library
from .library import LAST_ERROR, WAKE, WRITE

WORD_BYTES = 8
#: Words of a line, as byte offsets: functions and handles; layout of the ring, and addresses; then
#: words that change.
(
    PUT, SEND, FENCE, PROGRESS, CHECK, FREE, CLOCK,
    WORKER, ENDPOINT, AT_ONCE, LATER,
    SLOTS, SLOT_BYTES, CHANNEL, IN_ORDER, SPIN_NS,
    REMOTE, STAGE, WORD, REQUESTS, MOST_REQUESTS,
    STAGES, STAGED, STAGED_END, FAILED, FIRST, NEXT, DONE_SLOTS, SECONDS, NANOSECONDS,
    PLACE, KEY, REST, LINE_BYTES,
) = range(0, 34 * WORD_BYTES, WORD_BYTES)  # fmt: skip
#: Bytes of a message's header: place, key, and the value that a question wants back.
HEADER_BYTES = LINE_BYTES - PLACE
#: Bytes of a message, at most: with its headers a segment of the stream.
MESSAGE_BYTES = 1 << 16
#: Most requests of a slot besides whole messages (payload, footer, sequence number), and bytes of a
#: request's entry, which also says whether it ends a slot.
SLOT_REQUESTS, REQUEST_BYTES = 3, 2 * WORD_BYTES
_STATUS_BITS = 0xFF


@intrinsic
def call(typingctx, function, arguments):
    """Call a C function by its address; returns its result, whose upper bits may be noise."""

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        values = [builder.extract_value(args[1], k) for k in range(signature.args[1].count)]
        pointer = ir.FunctionType(word, [word] * len(values)).as_pointer()
        return builder.call(builder.inttoptr(args[0], pointer), values)

    return types.int64(types.int64, arguments), codegen


@intrinsic
def read(typingctx, address):
    """Load the word at an address; later loads are not done before it (acquire)."""

    def codegen(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(pointer, "acquire", WORD_BYTES)

    return types.int64(types.int64), codegen


@intrinsic
def write(typingctx, address, value):
    """Store a word at an address."""

    def codegen(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        builder.store(args[1], pointer)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def fence(typingctx):
    """Fence: all earlier loads and stores are done before any later store (release)."""

    def codegen(context, builder, signature, args):
        builder.fence("release")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def copy(typingctx, to, source, nbytes):
    """The C library's memcpy between addresses."""

    def codegen(context, builder, signature, args):
        target, origin = (builder.inttoptr(args[k], ir.IntType(8).as_pointer()) for k in (0, 1))
        cgutils.raw_memcpy(builder, target, origin, args[2], ir.Constant(ir.IntType(64), 1))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def address_of(typingctx, array):
    """Address of an array's first byte."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), codegen


@kept(atomics, library)
def advance(line):
    """Let transfers go on, and free complete ones."""
    if read(line + PROGRESS):
        call(read(line + PROGRESS), (read(line + WORKER),))
        reclaim(line)


@kept(atomics, library)
def reclaim(line):
    """Free the requests of complete writes, in order; count the slots that these completed."""
    while read(line + FIRST) < read(line + NEXT) and read(line + CHECK):
        first = read(line + FIRST)
        entry = _entry(line, first)
        request = read(entry)
        if request:
            status = call(read(line + CHECK), (request,)) & _STATUS_BITS
            if status == 1:
                return
            if status:
                write(line + FAILED, 1)
            call(read(line + FREE), (request,))
        write(line + DONE_SLOTS, read(line + DONE_SLOTS) + read(entry + WORD_BYTES))
        write(line + FIRST, first + 1)


@kept(atomics, library)
def _entry(line, number):
    return read(line + REQUESTS) + number % read(line + MOST_REQUESTS) * REQUEST_BYTES


@kept(atomics, library)
def put(line, source, nbytes, at, at_once, ends_slot):
    """Write bytes to a place of the other side; False if they cannot be copied at once and that
    was asked for."""
    if read(line + FAILED):
        return True
    while read(line + IN_ORDER) and nbytes > MESSAGE_BYTES:
        _put(line, source, MESSAGE_BYTES, at, False, 0)
        source, at, nbytes = source + MESSAGE_BYTES, at + MESSAGE_BYTES, nbytes - MESSAGE_BYTES
    return _put(line, source, nbytes, at, at_once, ends_slot)


@kept(atomics, library)
def _put(line, source, nbytes, at, at_once, ends_slot):
    """:func:`put`, by one write or message."""
    endpoint, place = read(line + ENDPOINT), read(line + REMOTE) + at
    params = read(line + AT_ONCE) if at_once else read(line + LATER)
    if read(line + IN_ORDER):
        write(line + PLACE, place)
        written = (endpoint, WRITE, line + PLACE, HEADER_BYTES, source, nbytes, params)
        sent = call(read(line + SEND), written)
    else:
        sent = call(read(line + PUT), (endpoint, source, nbytes, place, read(line + KEY), params))
    if LAST_ERROR <= sent < 0:
        if at_once:
            return False
        write(line + FAILED, 1)
    elif sent or (ends_slot and read(line + FIRST) < read(line + NEXT)):
        # Requests end in order; a write that is complete waits for those before it.
        while read(line + NEXT) - read(line + FIRST) >= read(line + MOST_REQUESTS):
            if read(line + FAILED):
                break
            advance(line)
        number = read(line + NEXT)
        write(_entry(line, number), sent)
        write(_entry(line, number) + WORD_BYTES, ends_slot)
        write(line + NEXT, number + 1)
    elif ends_slot:
        write(line + DONE_SLOTS, read(line + DONE_SLOTS) + 1)
    return True


@kept(atomics, library)
def order(line):
    """Let earlier writes, and reads here, be done before the next write."""
    if read(line + FAILED):
        return
    fence()
    call(read(line + FENCE), (read(line + WORKER),))


@kept(atomics, library)
def wake(line):
    """Send the message that wakes the process at the other end if it sleeps."""
    if read(line + FAILED):
        return
    request = call(
        read(line + SEND),
        (read(line + ENDPOINT), WAKE, 0, 0, 0, 0, read(line + LATER)),
    )
    if request and not LAST_ERROR <= request < 0:
        call(read(line + FREE), (request,))


@kept(atomics, library)
def look(line, address):
    """Load a word that the other side writes; transfers go on."""
    advance(line)
    return read(address)
