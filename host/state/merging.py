"""Python source of the loops that merge entries of one layout into a log, and index them.

They do the same as the generic loops of :mod:`~.probing`, several times as fast: the words of keys
and folds are constants of the source, and nothing is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .entry_layout import EntryLayout, FoldPlace, KeyPlace
from .folds import Merge

_HEAD = """
@njit(nogil=True)
def merge(entries, first, last, log, count, index, epoch, texts):
    hashes = np.empty(AHEAD, np.uint64)
    mask, stamp = np.uint64(len(index) - 1), np.uint64(epoch)
    for block in range(first, last, AHEAD):
        some = min(AHEAD, last - block)
        for k in range(some):
            base = (block + k) * {words}
            total = SEED
{hash}
            put(hashes, k, total)
            prefetch(index, np.int64(total & mask))
        for k in range(some):
            slot = at(index, np.int64(at(hashes, k) & mask))
            prefetch(log, select(slot >> TAG == stamp, np.int64(slot & ENTRY), count) * {words})
        for k in range(some):
            base, total = (block + k) * {words}, at(hashes, k)
            place, tag = total & mask, (stamp << HALF) | (total >> TAG)
            while True:
                slot = at(index, np.int64(place))
                if slot >> WORD == tag:
                    target = np.int64(slot & ENTRY) * {words}
                    if {differs} == 0:
{merge}
                        break
                elif slot >> TAG != stamp:
                    put(index, np.int64(place), (tag << WORD) | np.uint64(count))
                    target = count * {words}
{copy}
                    count += 1
                    break
                place = (place + ONE) & mask
    return count


@njit(nogil=True)
def enter(entries, last, index, epoch, texts):
    hashes = np.empty(AHEAD, np.uint64)
    mask, stamp = np.uint64(len(index) - 1), np.uint64(epoch)
    for block in range(0, last, AHEAD):
        some = min(AHEAD, last - block)
        for k in range(some):
            base = (block + k) * {words}
            total = SEED
{hash}
            put(hashes, k, total)
            prefetch(index, np.int64(total & mask))
        for k in range(some):
            total = at(hashes, k)
            place, tag = total & mask, (stamp << HALF) | (total >> TAG)
            while at(index, np.int64(place)) >> TAG == stamp:
                place = (place + ONE) & mask
            put(index, np.int64(place), (tag << WORD) | np.uint64(block + k))


@njit(nogil=True)
def lead(entries, last, texts, homes, ranks):
    for k in range(last):
        base, total = k * {words}, SEED
{leader}
        put(ranks, k, at(homes, np.int64(cell_of_hash(total, WORKER_CELLS))))
"""


def merge_source(layout: EntryLayout) -> str:
    """Write the source of functions ``merge``, ``enter`` and ``lead``.

    They do the same as ``merge_all``, ``index_all`` and ``leaders``, and take only the arguments
    that are not constants of the layout.
    """
    return _HEAD.format(
        words=layout.words,
        hash=_indented(3, (*_key_hash(layout), *_time_hash(layout))),
        leader=_indented(2, _key_hash(layout)),
        differs=_differs(layout),
        merge=_indented(6, _merges(layout)) or 24 * " " + "pass",
        copy=_indented(
            5, (f"put(log, target + {k}, at(entries, base + {k}))" for k in range(layout.words))
        ),
    )


def _indented(depth: int, lines: Iterable[str]) -> str:
    return "\n".join(4 * depth * " " + line for line in lines)


def _key_hash(layout: EntryLayout) -> Iterator[str]:
    for place in layout.hashed:
        yield from _hash_of(place)


def _time_hash(layout: EntryLayout) -> Iterator[str]:
    if layout.second >= 0:
        yield f"total += np.uint64(at(entries, base + {layout.second})) * SPREAD"


def _hash_of(place: KeyPlace) -> Iterator[str]:
    if place.is_coded:
        word = f"at(texts, at(entries, base + {place.offset}))"
    else:
        word = f"np.uint64(at(entries, base + {place.offset}))"
    is_null = None
    if place.null is not None:
        is_null = f"(at(entries, base + {place.null.word}) & {_signed(place.null.mask)}) != 0"
        word = f"select({is_null}, NULL, {word})"
    yield _fold_in(word)
    # Words that only repeat the sign are left out, as a narrower type has none; NULL has one word.
    for k in range(1, place.words):
        more = " | ".join(
            f"(at(entries, base + {place.offset + j}) "
            f"!= at(entries, base + {place.offset + j - 1}) >> 63)"
            for j in range(k, place.words)
        )
        shown = more if is_null is None else f"({more}) & (not ({is_null}))"
        yield f"if {shown}:"
        yield "    " + _fold_in(f"np.uint64(at(entries, base + {place.offset + k}))")


def _fold_in(word: str) -> str:
    return f"total = mix(total * SPREAD + {word})"


def _differs(layout: EntryLayout) -> str:
    parts = []
    for word, mask in enumerate(layout.masks.tolist()):
        part = f"at(log, target + {word}) ^ at(entries, base + {word})"
        if mask == -1:
            parts.append(f"({part})")
        elif mask:
            parts.append(f"(({part}) & {_signed(mask)})")
    return f"({' | '.join(parts)})" if parts else "0"


def _merges(layout: EntryLayout) -> Iterator[str]:
    key_masks, or_masks = layout.masks.tolist(), layout.or_masks.tolist()
    for word in range(layout.flag_words):
        bits = or_masks[word] & ~key_masks[word]
        if bits & layout.used_bits(word):
            both = f"at(log, target + {word}) | (at(entries, base + {word}) & {_signed(bits)})"
            yield f"put(log, target + {word}, {both})"
    for place in layout.folds:
        yield from _merge(place)


def _merge(place: FoldPlace) -> Iterator[str]:
    merge, at, words = place.fold.merge, place.offset, place.fold.words
    if merge is Merge.SUM:
        if words == 1:
            yield f"put(log, target + {at}, at(log, target + {at}) + at(entries, base + {at}))"
            return
        yield "carry = np.uint64(0)"
        for word in range(at, at + words):
            yield f"held = np.uint64(at(log, target + {word}))"
            yield f"partial = held + np.uint64(at(entries, base + {word}))"
            yield "sum = partial + carry"
            yield "carry = np.uint64(partial < held) | np.uint64(sum < partial)"
            yield f"put(log, target + {word}, np.int64(sum))"
    elif merge is Merge.FLOAT_SUM:
        yield f"sum = float_of(at(log, target + {at})) + float_of(at(entries, base + {at}))"
        yield f"put(log, target + {at}, word_of(sum))"
    elif merge in (Merge.MIN, Merge.MAX):
        is_better = _less(at, words) if merge is Merge.MIN else _less(at, words, of_log=True)
        if words == 1:
            yield (
                f"put(log, target + {at}, select({is_better}, at(entries, base + {at}), "
                f"at(log, target + {at})))"
            )
        else:
            yield f"if {is_better}:"
            yield from (_copy(word) for word in range(at, at + words))
    else:
        yield from _nearest(place)


def _nearest(place: FoldPlace) -> Iterator[str]:
    merge, at, words = place.fold.merge, place.offset, place.fold.words
    is_better = _less(at, words) if merge is Merge.MIN_BY else _less(at, words, of_log=True)
    equal = " & ".join(
        f"(at(entries, base + {w}) == at(log, target + {w}))" for w in range(at, at + words)
    )
    time, row = at + words, at + words + 1
    earlier = (
        f"(at(entries, base + {time}) < at(log, target + {time})) | "
        f"((at(entries, base + {time}) == at(log, target + {time})) & "
        f"(at(entries, base + {row}) < at(log, target + {row})))"
    )
    yield f"if ({is_better}) | ({equal} & ({earlier})):"
    yield from (_copy(word) for word in range(at, at + place.fold.total_words))
    if place.null is not None:
        word, mask = place.null.word, _signed(place.null.mask)
        kept = f"at(log, target + {word}) & ~{mask}"
        yield f"    put(log, target + {word}, ({kept}) | (at(entries, base + {word}) & {mask}))"


def _copy(word: int) -> str:
    return f"    put(log, target + {word}, at(entries, base + {word}))"


def _less(offset: int, words: int, *, of_log: bool = False) -> str:
    """Write the test that the entry's integer is less than the log's; ``of_log``: greater."""
    a, b = ("log, target", "entries, base")[:: 1 if of_log else -1]
    text = ""
    for word in range(offset, offset + words):
        first, second = f"at({a} + {word})", f"at({b} + {word})"
        if word < offset + words - 1:
            first, second = f"np.uint64({first})", f"np.uint64({second})"
        less = f"({first} < {second})"
        text = less if not text else f"({less} | (({first} == {second}) & {text}))"
    return text


def _signed(mask: int) -> str:
    return f"np.int64({mask})"
