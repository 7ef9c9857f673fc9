"""Peak memory of a join over that of an idle process: ``python -m bench.lookup.resident``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.lookup.contenders import Penstock
from bench.lookup.scale import Data


def _kilobytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def main(rows: int, folder: Path, memory_bytes: int, batches: int) -> None:
    """Print the bytes as JSON."""
    data = Data(rows, folder)
    small = Data(2000, folder)
    idle = Penstock(small, 4 << 20)
    idle.answer(small.calls(2))  # loads the machine code
    idle.close()
    calls = data.calls(batches)
    before = _kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    join = Penstock(data, memory_bytes)
    for batch in calls:
        join.answer([batch])
    peak = _kilobytes("VmHWM")
    json.dump({"idle": before, "peak": peak, "file": _kilobytes("RssFile")}, sys.stdout)
    join.close()


if __name__ == "__main__":
    main(int(sys.argv[2]), Path(sys.argv[1]).parent, int(sys.argv[3]), int(sys.argv[4]))
