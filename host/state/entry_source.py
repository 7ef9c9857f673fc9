"""Python source of the loop that folds rows: filter, window, keys, hash, probe and folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.expr import ops
from penstock.expr.node import Expr, Op, walk
from penstock.plan.group_query import GroupQuery
from penstock.types import INT64, Kind

from .entry_layout import EntryLayout, Flag, FoldPlace, KeyPlace
from .folds import Merge
from .loop_steps import LoopSteps
from .merging import merge_source
from .narrowing import Bounds, narrowed
from .probing import AHEAD
from .steps import RowSteps

_SOURCE = """
@njit(nogil=True)
def contribute({columns}place, first, last, chosen, out, outcome):
    count, without = 0, 0
    for i in range(first, last):
{filter}
    low, high = np.int64({most}), np.int64(-{most} - 1)
    for k in range(count):
        i, base = at(chosen, k), k * {words}
{steps}
    outcome[0], outcome[1], outcome[2], outcome[3] = count, without, low, high


@njit(nogil=True)
def fold({columns}place, first, last, chosen, out, outcome, low, high, log, held, index, epoch,
         texts):
    rows, without = 0, 0
    while first < last:
        stop = min(first + {block}, last)
        contribute({columns}place, first, stop, chosen, out, outcome)
        count = outcome[0]
        if count and (outcome[2] < low or outcome[3] > high):
            break
        held = merge(out, 0, count, log, held, index, epoch, texts)
        rows, without, first = rows + count, without + outcome[1], stop
    outcome[0], outcome[1], outcome[2], outcome[3] = rows, without, first, held
"""
#: Bytes of entries that are computed and then merged together: they fit the first cache.
_BLOCK_BYTES = 1 << 15
_NAN = 0x7FF8000000000000
_LEAST = -(1 << 63)


@dataclass(frozen=True)
class EntrySource:
    """Source of functions ``contribute``, which makes entries of rows, and ``fold``, which merges.

    Parameters
    ----------
    text : str
    leaves : tuple of (Expr, int)
        The loop's columns: the expression of each, and in how many words its values are.
    bounds : dict of column to (int, int)
        Range in which the values of a column must be.
    names : tuple of str
        Columns that the query reads, even if the loop does not.
    """

    text: str
    leaves: tuple[tuple[Expr, int], ...]
    bounds: Bounds
    names: tuple[str, ...]


def entry_source(
    query: GroupQuery, layout: EntryLayout, *, without_null: bool = False
) -> EntrySource:
    """Write the source for a query.

    Parameters
    ----------
    without_null : bool
        Whether the loop is for batches whose columns have no NULL.

    Raises
    ------
    NotCompilable
        There are too many steps, or the time of a row needs more than 64 bits.
    """
    side = query.source
    roots = [side.filter, *query.aggregation.keys]
    roots += [x for p in layout.folds for x in (p.fold.value, p.fold.by) if x is not None]
    roots += [] if side.time is None else [side.time]
    rewrite, bounds = narrowed(tuple(dict.fromkeys(roots)), without_null=without_null)
    leaves: dict[tuple[Expr, int], int] = {}
    lines = LoopSteps()
    rows = RowSteps(lines, leaves)
    passed = "True" if side.filter is ops.TRUE else rows.true(rewrite(side.filter))
    admitted = passed
    if query.windowed and side.time is not None and side.time.type.nullable:
        valid = rows.value(rewrite(side.time)).valid
        if valid is not None:
            admitted = rows.add(f"{passed} & {valid}")
    selection = [
        *lines.body,
        "put(chosen, count, i)",
        f"count += np.int64({admitted})",
        *([] if admitted == passed else [f"without += np.int64({passed}) - np.int64({admitted})"]),
    ]
    lines.body = []
    entry = _EntrySteps(query, layout, RowSteps(lines, leaves), rewrite)
    entry.write()
    columns = "".join(
        f"c{k}, " + (f"b{k}, o{k}, " if expr.type.nullable else "")
        for k, (expr, _) in enumerate(leaves)
    )
    text = _SOURCE.format(
        columns=columns,
        filter="\n".join(8 * " " + line for line in selection),
        steps="\n".join(8 * " " + line for line in lines.body),
        words=layout.words,
        most=INT64[1],
        block=max(AHEAD, _BLOCK_BYTES // layout.entry_bytes),
    )
    text += merge_source(layout)
    used = {leaf.attr for expr, _ in leaves for leaf in _columns(expr)}
    names = {leaf.attr[1] for expr in (*roots, *layout.exists) for leaf in _columns(expr)}
    return EntrySource(
        text,
        tuple(leaves),
        {c: ends for c, ends in bounds.items() if c.attr in used},
        tuple(sorted(names)),
    )


def _columns(expr: Expr) -> list[Expr]:
    return [leaf for leaf in walk(expr) if leaf.op is Op.COLUMN]


class _EntrySteps:
    """Writer of the steps that compute the words of an entry."""

    def __init__(
        self,
        query: GroupQuery,
        layout: EntryLayout,
        rows: RowSteps,
        rewrite: Callable[[Expr], Expr],
    ) -> None:
        self._query, self._layout, self._rows, self._rewrite = query, layout, rows, rewrite
        self._flags = [["np.int64(0)"] for _ in range(layout.flag_words)]

    def write(self) -> None:
        layout = self._layout
        for k, key in enumerate(layout.keys):
            self._key(key, is_time=k == layout.time)
        for expr, flag in layout.exists.items():
            valid = self._rows.validity(self._rewrite(expr))
            self._flag(flag, "np.bool_(True)" if valid is None else valid)
        for place in layout.folds:
            self._fold(place)
        for word, parts in enumerate(self._flags):
            self._put(word, " | ".join(parts))

    def _key(self, key: KeyPlace, *, is_time: bool) -> None:
        expr = self._rewrite(key.expr)
        if expr.type.kind is Kind.NULL:
            words, valid = ["np.int64(0)"], "np.bool_(False)"
        elif expr.type.is_float:
            v = self._rows.value(expr)
            plain = self._rows.add(f"np.float64({v.name}) + 0.0")
            bits = f"select({plain} == {plain}, word_of({plain}), np.int64({_NAN}))"
            words, valid = [self._rows.add(bits)], v.valid
        else:
            words, valid = self._rows.words(expr, key.words)
        for j, word in enumerate(words):
            known = word
            if valid is not None:
                zero = INT64[1] if is_time else 0  # closed last of all
                known = self._rows.add(f"select({valid}, {word}, np.int64({zero}))")
            self._put(key.offset + j, known)
            if is_time:
                self._rows.lines.body.append(f"low, high = min(low, {known}), max(high, {known})")
        if key.null is not None and valid is not None:
            self._flag(key.null, self._rows.add(f"not {valid}"))

    def _fold(self, place: FoldPlace) -> None:
        fold, at, rows = place.fold, place.offset, self._rows
        if fold.is_count:
            valid = None if fold.value is None else rows.validity(self._rewrite(fold.value))
            self._put(at, "np.int64(1)" if valid is None else f"np.int64({valid})")
            return
        folded = fold.by if fold.by is not None else fold.value
        assert folded is not None
        folded = self._rewrite(folded)
        if fold.merge is Merge.FLOAT_SUM:
            v = rows.value(folded)
            words, valid = [rows.add(f"word_of(np.float64({v.name}) + 0.0)")], v.valid
        elif folded.type.is_float:
            v = rows.value(folded)
            plain = rows.add(f"np.float64({v.name}) + 0.0")
            bits = rows.add(f"word_of({plain})")
            code = rows.add(f"select({bits} < 0, np.int64({_LEAST}) - {bits}, {bits})")
            most = f"select({plain} == {plain}, {code}, np.int64({INT64[1]}))"
            words, valid = [rows.add(most)], v.valid
        else:
            words, valid = rows.words(folded, fold.words)
        if fold.has_nearest:
            words = [*words, self._time(), "(place + i)"]
            carried = self._carried(place, valid)
            words += carried
        for j, (word, zero) in enumerate(zip(words, fold.zero, strict=True)):
            known = f"np.int64({word})"
            self._put(
                at + j, known if valid is None else f"select({valid}, {known}, np.int64({zero}))"
            )

    def _time(self) -> str:
        time = self._query.source.time
        if time is None:
            return "np.int64(0)"
        v = self._rows.value(self._rewrite(time))
        if v.valid is None:
            return v.name
        return self._rows.add(f"select({v.valid}, np.int64({v.name}), np.int64({INT64[1]}))")

    def _carried(self, place: FoldPlace, known: str | None) -> list[str]:
        """Write the value that min_by or max_by carries along; returns its words."""
        fold, rows = place.fold, self._rows
        assert fold.value is not None
        value = self._rewrite(fold.value)
        if value.type.kind is Kind.NULL:
            words, valid = ["np.int64(0)"], "np.bool_(False)"
        elif value.type.is_float:
            v = rows.value(value)
            words, valid = [rows.add(f"word_of(np.float64({v.name}))")], v.valid
        else:
            words, valid = rows.words(value, fold.value_words)
        if place.null is not None and valid is not None:
            is_null = f"not {valid}" if known is None else f"(not {valid}) & {known}"
            self._flag(place.null, rows.add(is_null))
        return words

    def _flag(self, flag: Flag, condition: str) -> None:
        self._flags[flag.word].append(f"select({condition}, np.int64({flag.mask}), np.int64(0))")

    def _put(self, word: int, value: str) -> None:
        self._rows.lines.body.append(f"put(out, base + {word}, {value})")
