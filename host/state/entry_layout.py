"""Layout of entries: flags, time key, other keys and folds, in words of 64 bits.

All workers of a query have the same layout. Its digest is in every block, since bare words do not
tell how to read them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.node import Expr
from penstock.plan.query import Aggregate
from penstock.types import Kind

from ..emit.groups.partial import ungroupable
from .coded import has_bytes, is_coded, is_coded_column
from .folds import MORE_BITS, GroupFold, Merge, words_for, words_of

#: Columns of :attr:`EntryLayout.fold_table`.
MERGE, OFFSET, WORDS, VALUE_WORDS, NULL_WORD, NULL_MASK = range(6)
#: Columns of :attr:`EntryLayout.key_table`.
KEY_OFFSET, KEY_WORDS, KEY_NULL_WORD, KEY_NULL_MASK, KEY_IS_TEXT = range(5)
#: Stands for the number of a flag word where there is no flag.
NO_WORD = -1


@dataclass(frozen=True)
class Flag:
    """A bit of an entry: its word and its number there."""

    word: int
    bit: int

    @property
    def mask(self) -> int:
        """The bit as a signed word."""
        return -(1 << 63) if self.bit == 63 else 1 << self.bit


@dataclass(frozen=True)
class KeyPlace:
    """Place of a key in an entry.

    Parameters
    ----------
    expr : Expr
    offset, words : int
    null : Flag or None
        Set where the key is NULL; None if it never is.
    """

    expr: Expr
    offset: int
    words: int
    null: Flag | None

    @property
    def is_coded(self) -> bool:
        return is_coded(self.expr.type)


@dataclass(frozen=True)
class FoldPlace:
    """Place of a fold in an entry.

    Parameters
    ----------
    fold : GroupFold
    offset : int
    null : Flag or None
        Set where the value that ``min_by`` or ``max_by`` carries along is NULL.
    """

    fold: GroupFold
    offset: int
    null: Flag | None


@dataclass(frozen=True)
class Uses:
    """The folds of one aggregate, by number, and the flag that says whether it has a value."""

    folds: tuple[int, ...]
    has_value: Flag | None


class EntryLayout:
    """Places of all keys, folds and flags of a query's entries.

    Parameters
    ----------
    keys : sequence of Expr
    time : int or None
        Number of the time key.
    aggregates : sequence of Aggregate
    schema : pyarrow.Schema
        Of the source's rows.
    has_sessions : bool
        Whether the time key is a session's, so that all parts of a session need one leader.

    Raises
    ------
    QueryError
        A key cannot be grouped, or a sum may need more digits than a decimal has.
    """

    def __init__(
        self,
        keys: tuple[Expr, ...],
        time: int | None,
        aggregates: tuple[Aggregate, ...],
        schema: pa.Schema,
        *,
        has_sessions: bool = False,
    ) -> None:
        self._has_sessions = has_sessions
        for key in keys:
            if key.type.kind is Kind.OTHER and not _has_bytes(key, schema):
                raise ungroupable(str(schema.field(key.attr[1]).type))
        self.time = time
        self._bits = 0
        nulls = [self._flag() if key.type.nullable else None for key in keys]
        self._key_bits = self._bits
        #: Folds, each once, in order of first use.
        folds: dict[GroupFold, None] = {}
        exists: dict[Expr, Flag] = {}
        uses = []
        for one in aggregates:
            numbers = tuple(_number(folds, _fold(name, one, schema)) for name in one.folds)
            watched = one.by if one.by is not None else one.value
            has_value = None
            if one.function != "count" and watched is not None and watched.type.nullable:
                if watched not in exists:
                    exists[watched] = self._flag()
                has_value = exists[watched]
            uses.append(Uses(numbers, has_value))
        #: By expression, the flag that is set if it was not NULL in some row of the group.
        self.exists = exists
        self.uses = tuple(uses)
        carried = [
            self._flag() if fold.has_nearest and _is_nullable(fold.value) else None
            for fold in folds
        ]
        self.flag_words = -(-self._bits // 64)
        at = self.flag_words
        order = ([] if time is None else [time]) + [k for k in range(len(keys)) if k != time]
        places: dict[int, KeyPlace] = {}
        for k in order:
            # The time key is one word: what lies beyond it is refused row by row.
            words = 1 if k == time else words_of(keys[k].type, "a key of GROUP BY")
            places[k] = KeyPlace(keys[k], at, words, nulls[k])
            at += words
        self.keys = tuple(places[k] for k in range(len(keys)))
        #: Number of the leading words, flags and keys, by which entries are compared.
        self.compared = at
        placed = []
        for fold, null in zip(folds, carried, strict=True):
            placed.append(FoldPlace(fold, at, null))
            at += fold.total_words
        self.folds = tuple(placed)
        self.words = max(at, 1)

    @property
    def entry_bytes(self) -> int:
        return 8 * self.words

    @property
    def time_offset(self) -> int:
        """Word of the time key; -1 if there is none."""
        return -1 if self.time is None else self.keys[self.time].offset

    @cached_property
    def zero(self) -> np.ndarray:
        """Contribution of a row whose values are all NULL, int64 of shape (words,)."""
        entry = np.zeros(self.words, np.int64)
        for place in self.folds:
            entry[place.offset : place.offset + place.fold.total_words] = place.fold.zero
        return entry

    @cached_property
    def masks(self) -> np.ndarray:
        """Mask of each word by which entries are compared, int64 of shape (compared,)."""
        masks = np.full(self.compared, -1, np.int64)
        for word in range(self.flag_words):
            bits = min(max(self._key_bits - 64 * word, 0), 64)
            masks[word] = -1 if bits == 64 else (1 << bits) - 1
        return masks

    @cached_property
    def or_masks(self) -> np.ndarray:
        """Mask of the bits of each flag word that merge by OR, int64 of shape (flag_words,)."""
        masks = np.full(self.flag_words, -1, np.int64)
        for place in self.folds:
            if place.null is not None:
                masks[place.null.word] &= ~place.null.mask
        return masks

    @cached_property
    def fold_table(self) -> np.ndarray:
        """One row per fold for the compiled loops, int64 of shape (folds, 6)."""
        rows = [
            (p.fold.merge, p.offset, p.fold.words, p.fold.value_words, *_flag_of(p.null))
            for p in self.folds
        ]
        return np.array(rows, np.int64).reshape(-1, 6)

    @property
    def hashed(self) -> tuple[KeyPlace, ...]:
        """Keys whose hash decides the leader: the time key only if there is no other."""
        timeless = tuple(p for k, p in enumerate(self.keys) if k != self.time)
        return timeless if timeless or self._has_sessions else self.keys

    @cached_property
    def key_table(self) -> np.ndarray:
        """One row per hashed key for the compiled loops, int64 of shape (keys, 5)."""
        rows = [(p.offset, p.words, *_flag_of(p.null), p.is_coded) for p in self.hashed]
        return np.array(rows, np.int64).reshape(-1, 5)

    @cached_property
    def second(self) -> int:
        """Word that the index hashes beside the hash of the keys; -1 if there is none."""
        return self.time_offset if len(self.keys) > 1 or self._has_sessions else -1

    @cached_property
    def text_words(self) -> np.ndarray:
        """Words that are codes of texts, int64 of shape (n,)."""
        words = [p.offset for p in self.keys if p.is_coded]
        for p in self.folds:
            if p.fold.has_nearest and p.fold.value is not None and is_coded(p.fold.value.type):
                words.append(p.offset + p.fold.words + 2)
        return np.array(words, np.int64)

    def used_bits(self, word: int) -> int:
        """Return the mask of the bits of a flag word that are in use."""
        bits = min(self._bits - 64 * word, 64)
        return -1 if bits == 64 else (1 << bits) - 1

    def digest(self, schema: pa.Schema) -> bytes:
        """Return eight bytes that tell this layout and output schema from others."""
        keys = [(p.offset, p.words, p.null, str(p.expr.type)) for p in self.keys]
        folds = self.fold_table.tolist(), [str(p.fold) for p in self.folds]
        text = repr((self.time, self.compared, self.words, keys, folds, list(map(str, schema))))
        return hashlib.sha256(text.encode()).digest()[:8]

    def _flag(self) -> Flag:
        self._bits += 1
        return Flag((self._bits - 1) // 64, (self._bits - 1) % 64)


def _flag_of(flag: Flag | None) -> tuple[int, int]:
    return (NO_WORD, 0) if flag is None else (flag.word, flag.mask)


def _is_nullable(expr: Expr | None) -> bool:
    return expr is not None and expr.type.nullable


def _number(folds: dict[GroupFold, None], fold: GroupFold) -> int:
    folds.setdefault(fold)
    return list(folds).index(fold)


def _has_bytes(expr: Expr, schema: pa.Schema) -> bool:
    return is_coded_column(expr) and has_bytes(schema.field(expr.attr[1]).type)


def _fold(name: str, one: Aggregate, schema: pa.Schema) -> GroupFold:
    """Return how entries hold one fold of an aggregate."""
    value = one.value
    if name == "count":
        return GroupFold(Merge.SUM, value if _is_nullable(value) else None, is_count=True)
    assert value is not None
    if one.by is not None:
        if value.type.kind is Kind.OTHER and not _has_bytes(value, schema):
            raise QueryError(
                f"{one.text} of lists, structs and the like is not supported over one table; take "
                "a field of it"
            )
        merge = Merge.MIN_BY if one.function == "min_by" else Merge.MAX_BY
        by_words = words_of(one.by.type, one.text)
        return GroupFold(merge, value, one.by, by_words, words_of(value.type, one.text))
    if name in ("min", "max"):
        merge = Merge.MIN if name == "min" else Merge.MAX
        return GroupFold(merge, value, None, words_of(value.type, one.text))
    if value.type.is_float:
        return GroupFold(Merge.FLOAT_SUM, value)
    words = max(2, words_for(value.type.signed_bits + MORE_BITS, one.text))
    return GroupFold(Merge.SUM, value, None, words)
