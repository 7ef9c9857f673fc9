"""Long and deep queries: ``python -m bench.host.limits [NAME ...]``.

Each runs in a process of its own that has imported Penstock and joined the same two tables with
two plain conditions: from then on its seconds are counted, those of processors beside them, and by
how much the process's main memory grew at most. Tables have 200 rows, all of which meet. Machine
code is kept in an empty folder, so that whatever has to be compiled is. What is too large is
refused; the last column is the message.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

ROWS = 200
#: Seconds and MB of each, at most.
MOST_S, MOST_MB = 5.0, 200.0
#: Seconds after which a query counts as hung.
HUNG_S = 120
_WIDTH = 160

_FROM = "FROM a JOIN b ON b.t BETWEEN a.t - 1000 AND a.t + 1000"


def _where(condition: str) -> str:
    return f"SELECT a.id {_FROM} AND ({condition})"


def _nested(form: str, levels: int, value: str) -> str:
    """The form around the value, again and again; ``{0}`` is what is inside, ``{1}`` the level."""
    before, after = form.split("{0}")
    levels_in = range(levels)
    return "".join(before.format(0, k) for k in reversed(levels_in)) + value + "".join(
        after.format(0, k) for k in levels_in
    )  # fmt: skip


def _case(levels: int) -> str:
    return _nested("CASE WHEN b.x > {1} THEN {0} ELSE {1} END", levels, "a.x") + " < 500"


def _values(count: int, form: str = "{}") -> str:
    return ", ".join(form.format(3 * k) for k in range(count))


def _greatest(count: int, form: str) -> str:
    return f"greatest({', '.join(form.format(k) for k in range(count))}) > 990"


def _many(count: int, form: str) -> str:
    """So many output columns, of few rows."""
    return f"SELECT {', '.join(form.format(k) for k in range(count))} {_FROM} AND a.x = b.x"


#: What must run.
RUN: dict[str, Callable[[], str]] = {
    "GREATEST of 64": lambda: _where(_greatest(64, "a.x - b.y + {0} * a.y * b.x")),
    "OR of 1,000": lambda: _where(" OR ".join(f"a.x - b.y = {3 * k}" for k in range(1000))),
    "AND of 2,000": lambda: _where(" AND ".join(f"a.x - b.y <> {3 * k}" for k in range(2000))),
    "IN of 50,000": lambda: _where(f"a.x IN ({_values(50_000)})"),
    "IN of 50,000, both sides": lambda: _where(f"a.x - b.y IN ({_values(50_000)})"),
    "IN of 50,000 texts": lambda: _where("a.s IN (" + _values(50_000, "'text {}'") + ")"),
    "CASE 60 deep": lambda: _where(_case(60)),
    "CASE 60 deep in conditions": lambda: _where(
        _nested("CASE WHEN {0} > {1} THEN b.x ELSE {1} END", 60, "a.x") + " < 500"
    ),
    "parentheses 60 deep": lambda: _where("(" * 60 + "a.x < b.x" + ")" * 60),
}
#: What may be refused.
LARGER: dict[str, Callable[[], str]] = {
    "GREATEST of 250": lambda: _where(_greatest(250, "a.x - b.y + {0} * a.y * b.x")),
    "GREATEST of 5,000": lambda: _where(_greatest(5000, "a.x - b.y + {0}")),
    "OR of 5,000": lambda: _where(" OR ".join(f"a.x - b.y = {3 * k}" for k in range(5000))),
    "OR of 20,000": lambda: _where(" OR ".join(f"a.x - b.y = {3 * k}" for k in range(20_000))),
    "AND of 50,000": lambda: _where(" AND ".join(f"a.x <> {3 * k}" for k in range(50_000))),
    "IN of 75,000": lambda: _where(f"a.x IN ({_values(75_000)})"),
    "IN of 1,000,000": lambda: _where(f"a.x IN ({_values(1_000_000)})"),
    "CASE of 250 branches": lambda: _where(
        "CASE " + " ".join(f"WHEN a.x - b.y = {k} THEN b.x > {k}" for k in range(250)) + " END"
    ),
    "CASE of 5,000 branches": lambda: _where(
        "CASE " + " ".join(f"WHEN a.x = {k} THEN b.x" for k in range(5000)) + " END < 5"
    ),
    "CASE 200 deep": lambda: _where(_case(200)),
    "CASE 5,000 deep": lambda: _where(_case(5000)),
    "parentheses 600 deep": lambda: _where("(" * 600 + "a.x < b.x" + ")" * 600),
    "parentheses 50,000 deep": lambda: _where("(" * 50_000 + "a.x < b.x" + ")" * 50_000),
    "a sum of 1,000": lambda: _where(" + ".join(["a.x", "b.x"] * 500) + " < 9000"),
    "a sum of 20,000": lambda: _where(" + ".join(["a.x", "b.x"] * 10_000) + " < 9000"),
    "1,000 columns": lambda: _many(1000, "a.x + {0} AS c{0}"),
    "10,000 columns": lambda: _many(10_000, "a.x + {0} AS c{0}"),
    "8 aggregates of pairs": lambda: _many(8, "sum(a.x * {0} + b.y) AS c{0}"),
    "1,000 aggregates of pairs": lambda: _many(1000, "sum(a.x * {0} + b.y) AS c{0}"),
    "1,000 aggregates of one side": lambda: _many(1000, "sum(b.y + {0}) AS c{0}"),
    "a name of 1,000,000 characters": lambda: _where(f"a.{'x' * 1_000_000} = 1"),
    "a text of 1,000,000 characters": lambda: _where(f"a.s = '{'x' * 1_000_000}'"),
    "a text of 2,000,000 characters": lambda: _where(f"a.s = '{'x' * 2_000_000}'"),
    "60 joins": lambda: f"SELECT a.id FROM a{' JOIN b' * 60} ON a.t = b.t",
}


def main(names: list[str]) -> int:
    """Print each query's figures; 1 if one is above the limits or fails otherwise."""
    made = RUN | LARGER
    failed = 0
    console = Console(width=_WIDTH, highlight=False, markup=False)
    console.print(f"{'query':32} {'seconds':>8} {'CPU':>6} {'MB':>6}  outcome")
    for name in names or made:
        seconds, processor, grown, outcome = _measured(name)
        good = seconds <= MOST_S and grown <= MOST_MB and not outcome.startswith("!")
        good = good and (name in LARGER or outcome.endswith(" rows"))
        failed += not good
        mark = "" if good else "ABOVE THE LIMITS: "
        console.print(
            f"{name:32} {seconds:8.2f} {processor:6.2f} {grown:6.0f}  {mark}{outcome:.90}"
        )
    return 1 if failed else 0


def _measured(name: str) -> tuple[float, float, float, str]:
    """Seconds, those of processors, MB and what came of it, from a process of its own."""
    command = [sys.executable, "-m", "bench.host.limits", "--child", name]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PENSTOCK_CACHE_DIR": folder}
        try:
            done = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                timeout=HUNG_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return HUNG_S, 0.0, 0.0, "! it hangs"
    if done.returncode:
        return 0.0, 0.0, 0.0, f"! {done.stderr.strip().splitlines()[-1]}"
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def _child(name: str) -> None:
    import numpy as np
    import pyarrow as pa

    import penstock
    from penstock.errors import PenstockError

    rng = np.random.default_rng(1)
    tables = {
        side: pa.table(
            {
                "id": np.arange(ROWS),
                "t": np.arange(ROWS),
                "x": rng.integers(0, 1000, ROWS),
                "y": rng.integers(0, 1000, ROWS),
                "s": [f"text {k}" for k in range(ROWS)],
            }
        )
        for side in "ab"
    }
    times = {"a": "t", "b": "t"}
    for condition in ("a.x < b.y", "a.x * b.y > 5"):
        penstock.sql(_where(condition), tables, time=times)
    query = (RUN | LARGER)[name]()
    # Writing 5 there makes the present use the highest so far.
    Path("/proc/self/clear_refs").write_text("5")
    before, began, busy = _status("VmRSS"), time.perf_counter(), time.process_time()
    try:
        outcome = f"{penstock.sql(query, tables, time=times).num_rows:,} rows"
    except PenstockError as error:
        outcome = f"refused: {error}"
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    figures = [seconds, busy, _status("VmHWM") - before, outcome]
    sys.stdout.write(json.dumps(figures) + "\n")


def _status(name: str) -> float:
    """A figure of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
