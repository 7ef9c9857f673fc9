"""How a task of a kernel ends."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """Codes of all kernels."""

    #: Complete.
    OK = 0
    #: Out of room for results; the header says where to go on.
    PAUSED = 1
    #: An address is misaligned. A misaligned results address leaves no header.
    MISALIGNED = 2
    #: Nothing to do: no tuples, no passes, or an empty window.
    EMPTY = 3
    #: Less room for results than the kernel needs for progress, or for all aggregates.
    NO_ROOM = 4
    #: A pass is empty, beyond the window, or does not add up with the number of stream tuples or
    #: with its share.
    BAD_PASS = 5
    #: A stream tuple's range does not fit its pass, or comes too early for a free unit.
    BAD_RANGE = 6
    #: Memory answered a read with an error.
    READ_ERROR = 7
    #: Memory answered a write with an error.
    WRITE_ERROR = 8
    #: The build does not have the mode.
    BAD_MODE = 9
    #: More tuples of history than tuples.
    BAD_HISTORY = 16
    #: A window larger than the depth of the build.
    BAD_ROWS = 17
