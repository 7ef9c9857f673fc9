"""What a process of ``python -m tests.fuzz`` does."""

from __future__ import annotations

import traceback
from pathlib import Path

from tests.fuzz.campaign import Tally, run_seeds, write_finding
from tests.fuzz.devices import opened
from tests.fuzz.duck import Duck

FOLDER = Path("build/fuzz")


def run_chunk(
    device: str, first: int, last: int, seconds: float
) -> tuple[dict[str, int], list[str]]:
    """Runs seeds in a process of its own: counts, and what was found, with the scripts' paths."""
    tally = Tally()
    found = []
    with Duck() as duck:
        for seed in range(first, last):
            before = len(tally.findings)
            with opened(device, seed) as made:
                try:
                    run_seeds([seed], made, tally, duck=duck, band=device != "cpu")
                except Exception:
                    # The generator's or an oracle's own fault: other seeds go on.
                    tally.counts["faults of the fuzzer"] += 1
                    found.append(f"seed {seed}: fault of the fuzzer: {traceback.format_exc()}")
                for finding in tally.findings[before:]:
                    path = write_finding(finding, made, FOLDER / device, seconds)
                    found.append(f"{path}: {finding.mode}: {finding.outcome.what[:300]}")
    return dict(tally.counts), found
