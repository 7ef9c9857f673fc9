"""What this process holds: memory, threads, open files (Linux)."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path


def resident_bytes() -> int:
    """Main memory of the process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def threads() -> int:
    """Threads of the interpreter."""
    return threading.active_count()


def open_files() -> int:
    """File descriptors."""
    return len(os.listdir("/proc/self/fd"))
