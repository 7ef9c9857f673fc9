"""Freed memory stays with a worker's process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from penstock.host.workers.local.child import keep_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(64 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_memory()
faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told")
def test_pages_of_a_freed_array_are_not_asked_for_again():
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(ran.stdout) < 100  # of 16,384
