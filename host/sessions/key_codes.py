"""Numbers for keys: equal keys of either side have one number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from penstock.expr.columns import evaluate_all
from penstock.plan.window import Sessions
from penstock.types import INT64

from ..keys.hashing import float_bits
from ..rows.sides import SideRows

#: Keys beyond twice the kept rows at which unused keys are forgotten.
_SPARE = 4096


class KeyCodes:
    """Numbers the keys of rows that form sessions; a single integer is its own number."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        keys = sessions.keys
        self._is_plain = len(keys[0]) == 1 and all(
            key.type.is_integral and INT64[0] <= key.type.lo and key.type.hi <= INT64[1]
            for (key,) in keys
        )
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._following = count()

    def __len__(self) -> int:
        return len(self._numbers)

    def encode(self, side: str, rows: SideRows) -> tuple[np.ndarray, np.ndarray]:
        """Number the keys of a side's rows.

        Returns
        -------
        known : ndarray of bool, shape (rows,)
            False where the key is NULL, or a part of it.
        codes : ndarray of int64
            Numbers of the rows whose key is known.
        """
        vectors = evaluate_all(self._sessions.side_keys(side), rows.columns, len(rows))
        known = np.ones(len(rows), bool)
        for vector in vectors:
            if vector.valid is not None:
                known &= vector.valid
        values = [vector.values[known] for vector in vectors]
        if self._is_plain:
            return known, values[0].astype(np.int64)
        return known, self._codes(
            [float_bits(column) if column.dtype.kind == "f" else column for column in values]
        )

    def _codes(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        inverse = np.zeros(len(columns[0]), np.int64)
        if not len(inverse):
            return inverse
        first = np.zeros(1, np.int64)
        for column in columns:
            _, inner = np.unique(column, return_inverse=True)
            both = inverse * (int(inner.max()) + 1) + inner
            _, first, inverse = np.unique(both, return_index=True, return_inverse=True)
        numbers, following = self._numbers, self._following
        keys = zip(*(column[first].tolist() for column in columns), strict=True)
        codes = [
            numbers[key] if key in numbers else numbers.setdefault(key, next(following))
            for key in keys
        ]
        return np.array(codes, np.int64)[inverse]

    def keep(self, codes: np.ndarray) -> None:
        """Forget the keys of all other numbers, once they are more than half of the known ones."""
        if len(self._numbers) > 2 * len(codes) + _SPARE:
            alive = set(codes.tolist())
            self._numbers = {key: code for key, code in self._numbers.items() if code in alive}
