"""The record of all runs: which seeds ran on which device, with what counts."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """Seeds ``first`` to ``last`` (without it) of one generator on one device."""

    device: str
    generator: str
    first: int
    last: int
    counts: dict[str, int]


class Ledger:
    """A file with a line of JSON for each range of seeds that is done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries = [Entry(**json.loads(line)) for line in self._lines()]

    def _lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []

    def add(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(entry)) + "\n")

    def total(self, device: str) -> Counter[str]:
        """Counts of a device over all runs, whichever generator made the queries."""
        total: Counter[str] = Counter()
        for entry in self._entries:
            if entry.device == device:
                total.update(entry.counts)
        return total

    def done(self, device: str, generator: str) -> list[range]:
        """Ranges of seeds that need not run again."""
        return [
            range(e.first, e.last)
            for e in self._entries
            if (e.device, e.generator) == (device, generator)
        ]


def generator_version() -> str:
    """A hash of the sources that decide what a seed means."""
    folder = Path(__file__).parent
    names = ["types", "data", "expr", "expressions", "query", "aggregates", "generate", "campaign"]
    names += ["mode", "run"]
    whole = b"".join((folder / f"{name}.py").read_bytes() for name in names)
    return hashlib.sha256(whole).hexdigest()[:12]
