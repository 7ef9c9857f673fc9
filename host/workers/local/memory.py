"""Memory that a worker's process keeps when it has freed it.

Each window that closes gives its groups in new arrays, which are freed when they have been sent.
The allocator would map large ones anew each time, and the system would clear each page again, which
takes longer than to fill it: a fifth of the CPU time of two workers that group 10 M keys.
"""

from __future__ import annotations

import ctypes
import sys

import pyarrow as pa

#: Options of glibc's ``mallopt``.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
#: Bytes free at the end of the heap that are kept, the most that the option takes.
_KEPT_BYTES = (1 << 31) - 1
#: Bytes by which the heap grows at least; those never used cost nothing.
_GROWTH_BYTES = 64 << 20


def keep_memory() -> None:
    """Let freed arrays of any size be used again by this process, where the C library can.

    It then holds as much as it once needed, but for what is free beyond 2 GiB at the heap's end.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return
    # Arrow's own allocator gives pages back soon.
    pa.set_memory_pool(pa.system_memory_pool())
    options = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _KEPT_BYTES), (_TOP_PAD, _GROWTH_BYTES))
    for option, value in options:
        mallopt(option, value)
