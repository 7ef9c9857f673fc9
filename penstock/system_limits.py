"""Limits of the system that a call has met, and how a user raises them."""

from __future__ import annotations

import errno

_REMEDIES = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "let other programs of this machine close files (sysctl fs.file-max)",
    errno.EFBIG: "raise the limit of what a process may write to one file (ulimit -f)",
    errno.ENOSPC: "free or add space",
    errno.EDQUOT: "free or add space",
    errno.ENOMEM: "free memory",
}


def limit_remedy(cause: BaseException, otherwise: str) -> str:
    """Return how to raise the limit that a call of the system has met; else the other text."""
    number = cause.errno if isinstance(cause, OSError) else None
    return _REMEDIES.get(number or 0, otherwise)
