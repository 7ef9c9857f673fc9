"""The table of figures of the Spark bridge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.rows import Row
from bench.spark import runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How many times the evaluations of Spark's own join the bridge should do per second.
RATIO = 100.0
#: Most that a worker should hold of a lane whose pairs do not fit in memory.
WORKER_BYTES = 2 << 30


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    #: Rows of either side of the join by the bridge, and by Spark.
    rows: int
    spark_rows: tuple[int, int]
    #: Windows to both sides, in rows.
    windows: tuple[int, ...]
    lanes: tuple[int, ...]
    #: Rows of either side, and columns, of the lane with many pairs.
    emitted: tuple[int, int]


FULL = Scale(
    rows=400_000,
    spark_rows=(20_000, 100_000),
    windows=(100, 1_000, 10_000, 100_000, 400_000),
    lanes=(1, 2, 4, 8),
    emitted=(11_600, 8),
)
QUICK = Scale(
    rows=100_000,
    spark_rows=(10_000, 20_000),
    windows=(1_000, 100_000),
    lanes=(1, 2),
    emitted=(2_000, 8),
)


class Report:
    """Measures in one session.

    Parameters
    ----------
    scale : Scale
    on_row : callable
        Called with each row.
    """

    def __init__(self, scale: Scale, on_row: Callable[[Row], None]) -> None:
        self.scale = scale
        self.rows: list[Row] = []
        self._on_row = on_row
        self._by_window: list[tuple[int, runs.Timed]] = []
        self._baseline: runs.Timed | None = None

    def measure(self) -> None:
        scale, cores = self.scale, 2
        spark = runs.session(cores)
        try:
            left, right = (runs.points(spark, scale.rows, seed) for seed in (1, 2))
            few, many = (
                runs.points(spark, rows, seed)
                for rows, seed in zip(scale.spark_rows, (1, 2), strict=True)
            )
            # Each once before, so that all kernels and plans are compiled.
            runs.bridge(spark, few, few, scale.windows[-1], cores)
            runs.nested_loop(spark, few.limit(1000), few)
            own = self._baseline = runs.nested_loop(spark, many, few)
            for window in scale.windows:
                timed = runs.bridge(spark, left, right, window, cores)
                self._by_window.append((window, timed))
                is_largest = window == scale.windows[-1]
                self._add(
                    f"{scale.rows:,} x {scale.rows:,} rows, window {window:,} to both sides",
                    f"{timed.rate:.3g} evaluations/s, {2 * scale.rows / timed.seconds:.3g} rows/s",
                    timed,
                    f"{own.rate:.3g} evaluations/s",
                    target=f">= {RATIO:g}x Spark's" if is_largest else "",
                    met=timed.rate >= RATIO * own.rate if is_largest else None,
                    ratio=timed.rate / own.rate,
                )
            for lanes in scale.lanes:
                timed = runs.bridge(spark, left, right, scale.windows[-1], lanes)
                what = f"the same, window of all rows, {lanes} lanes on {cores} cores"
                self._add(what, f"{timed.rate:.3g} evaluations/s", timed)
            self._many_pairs(spark)
        finally:
            spark.stop()

    def _many_pairs(self, spark: runs.SparkSession) -> None:
        rows, columns = self.scale.emitted
        found = runs.many_pairs(spark, rows, columns)
        gib = 1 << 30
        self._add_row(
            Row(
                f"one lane with {found.pair_bytes / 1e9:.1f} GB of pairs; Java has {runs.MEMORY}",
                f"{found.seconds:.0f} s, {rows * rows / found.seconds:.3g} pairs/s; a worker had "
                f"{found.worker_bytes / gib:.2f} GiB at most",
                f"completes, <= {WORKER_BYTES / gib:g} GiB",
                0 < found.worker_bytes <= WORKER_BYTES,
                values=asdict(found),
            )
        )

    def _add(
        self,
        what: str,
        measured: str,
        timed: runs.Timed,
        baseline: str = "",
        *,
        target: str = "",
        met: bool | None = None,
        ratio: float | None = None,
    ) -> None:
        text = measured if ratio is None else f"{measured}: {ratio:.3g}x"
        values = {**asdict(timed), "ratio": ratio}
        self._add_row(Row(what, text, target, met, baseline, values))

    def _add_row(self, row: Row) -> None:
        self.rows.append(row)
        self._on_row(row)

    def draw(self, out: Path) -> list[Path]:
        from bench.pictures import save

        return save({"spark_windows": self._windows}, out)

    def _windows(self) -> Figure:
        from matplotlib import pyplot as plt

        from bench.pictures import OURS, THEIRS

        figure, axes = plt.subplots(figsize=(6, 3.5))
        sizes = [window for window, _ in self._by_window]
        axes.loglog(sizes, [t.rate for _, t in self._by_window], "o-", color=OURS, label="bridge")
        if self._baseline is not None:
            axes.axhline(self._baseline.rate, color=THEIRS, label="Spark's nested loop")
        axes.set_xlabel("window to both sides, rows")
        axes.set_ylabel("evaluations per second")
        axes.legend()
        return figure
