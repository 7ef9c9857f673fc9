"""Lines of a soak: looks at what a run holds."""

from __future__ import annotations

from dataclasses import dataclass

#: Lines of a run, at least: its first fifth is left out, and two fifths are compared.
LEAST_LINES = 10


@dataclass(frozen=True)
class Line:
    """A look at the process, and at the latency since the last one."""

    at_s: float
    rss_bytes: int
    threads: int
    files: int
    results: int
    p99_s: float

    def __str__(self) -> str:
        return (
            f"{self.at_s:7.0f} s  {self.rss_bytes / 1e6:8.1f} MB  {self.threads} threads  "
            f"{self.files} files  {self.results:,} results  p99 {self.p99_s * 1e3:.1f} ms"
        )
