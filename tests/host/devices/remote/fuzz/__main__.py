"""``make fuzz-wire``: random messages for a server of devices and for its clients.

Four parts, each in a process of its own, so that a crash is seen: messages straight to a session
and false answers straight to a client, thousands a second; the same over sockets. Counts are
summed in a file, and each run goes on with the next seeds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.host.devices.remote.fuzz.watch import MOST_GROWTH, resident_bytes

#: Messages of one process by part.
PARTS = {
    "decoders": 200_000,
    "dispatch": 20_000,
    "answers": 20_000,
    "sockets": 10_000,
    "false_servers": 1_000,
}
#: Messages before memory is looked at for the first time.
_WARM = 1000
#: Seconds of one process; it hangs beyond.
_HANGS_S = 900


def main() -> int:
    """Run parts in turns until there are enough messages, or time is over."""
    parser = argparse.ArgumentParser(prog="make fuzz-wire", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="in all runs together")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--seed", type=int, help="run one part once with this seed")
    parser.add_argument("--file", type=Path, default=Path("build/fuzz-wire.json"))
    asked = parser.parse_args()
    if asked.seed is not None:
        return _part(asked.parts[0], asked.seed, PARTS[asked.parts[0]])
    sums = json.loads(asked.file.read_text()) if asked.file.exists() else {}
    until = time.monotonic() + 60 * asked.minutes
    while time.monotonic() < until and _all(sums) < asked.messages:
        for part in asked.parts:
            own = sums.setdefault(part, {"next_seed": 1})
            found = run_part(part, own["next_seed"], PARTS[part])
            own["next_seed"] += 1
            for name, value in found.items():
                own[name] = (
                    max(own.get(name, 0), value) if "growth" in name else (own.get(name, 0) + value)
                )
            asked.file.parent.mkdir(parents=True, exist_ok=True)
            asked.file.write_text(json.dumps(sums, indent=1))
        _say(f"{_all(sums)} messages")
    _say(json.dumps(sums, indent=1))
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _all(sums: dict[str, dict[str, int]]) -> int:
    return sum(own.get("messages", 0) for own in sums.values())


def run_part(part: str, seed: int, messages: int) -> Counter[str]:
    """The counts of a part, run in a process of its own.

    Raises
    ------
    AssertionError
        It failed, crashed, or hung.
    """
    code = (
        "from tests.host.devices.remote.fuzz.__main__ import _part; import sys; "
        "sys.exit(_part(%r, %d, %d))"
    )
    command = [sys.executable, "-X", "faulthandler", "-c", code % (part, seed, messages)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_HANGS_S)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"{part} with seed {seed} hangs: {late.stderr!r:.3000}") from late
    said = done.stderr[-6000:]
    assert done.returncode == 0, f"{part} with seed {seed} ended with {done.returncode}:\n{said}"
    return Counter(json.loads(done.stdout.splitlines()[-1]))


def _part(part: str, seed: int, messages: int) -> int:
    """Run a part here, and print its counts."""
    run = importlib.import_module(f"tests.host.devices.remote.fuzz.{part}").main
    warm = min(messages // 4, _WARM)
    run(-seed, warm)
    before = resident_bytes()
    counts = run(seed, messages)
    growth = max(resident_bytes() - before, 0)
    assert growth <= MOST_GROWTH, f"memory grew by {growth} bytes"
    _say(json.dumps({**counts, "own_growth": growth}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
