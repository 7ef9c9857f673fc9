"""A report in steps, which can be taken by name."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from bench.lookup.scale import Data, Scale
from bench.rows import Row
from penstock.errors import UsageError


class StepReport(ABC):
    """Measures figures, step by step.

    Parameters
    ----------
    data : Data
    scale : Scale
    only : sequence of str or None
        Steps by name; None for all.
    on_row : callable
        Takes each row as it is known.
    """

    def __init__(
        self,
        data: Data,
        scale: Scale,
        only: Sequence[str] | None,
        on_row: Callable[[Row], None],
    ) -> None:
        self.data, self.scale, self._only, self._on_row = data, scale, only, on_row
        self.rows: list[Row] = []

    @property
    @abstractmethod
    def _steps(self) -> Mapping[str, Callable[[], None]]:
        """The steps by name, in their order."""

    def measure(self) -> None:
        """Take the steps."""
        steps = self._steps
        for name in self._only or steps:
            if name not in steps:
                raise UsageError(f"there is no step {name}; there are {', '.join(steps)}")
            steps[name]()
            gc.collect()

    def _add(
        self, what: str, measured: str, target: str = "", met: bool | None = None, **values
    ) -> None:
        row = Row(what, measured, target, met, values=values)
        self.rows.append(row)
        self._on_row(row)
