"""Texts of NEXMark's people, auctions and bids.

A text is drawn from a pool, since making one costs more than all else of a row. Columns whose texts
belong together have one pool of rows, such as a channel and its address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from .draws import letters

#: Rows of a pool, unless the definition says how many values there are.
_ROWS = 4096

#: Bytes that a row has on average, and what the suite counts in it beside texts.
_PERSON, _AUCTION, _BID = (200, 8), (500, 48), (100, 32)

_CITIES = "Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne"
_FIRST_NAMES = "Peter,Paul,Luke,John,Saul,Vicky,Kate,Julie,Sarah,Deiter,Walter"
_LAST_NAMES = "Shultz,Abrams,Spencer,White,Bartels,Walton,Smith,Jones,Noris"
_STATES = "AZ,CA,ID,OR,WA,WY"
#: Half of the bids come through one of these, the others through one of 10,000.
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS = 10_000

Pool = dict[str, list[str]]


def pools(stream: str, rng: np.random.Generator) -> list[dict[str, pa.Array]]:
    """The pools of a stream: columns of one length each, from which rows are drawn evenly."""
    return [
        {name: pa.array(texts) for name, texts in pool.items()} for pool in _MAKERS[stream](rng)
    ]


def _person(rng: np.random.Generator) -> list[Pool]:
    digits = rng.integers(0, 10_000, (_ROWS, 4)).tolist()
    first, last = _any(rng, _FIRST_NAMES), _any(rng, _LAST_NAMES)
    user, host = _short(rng, 7), _short(rng, 5)
    pool = {
        "name": [f"{one} {two}" for one, two in zip(first, last, strict=True)],
        "email": [f"{one}@{two}.com" for one, two in zip(user, host, strict=True)],
        "card": [" ".join(f"{four:04}" for four in card) for card in digits],
        "city": _any(rng, _CITIES),
        "state": _any(rng, _STATES),
    }
    return [_filled_up(rng, pool, *_PERSON)]


def _auction(rng: np.random.Generator) -> list[Pool]:
    pool = {"item": _short(rng, 20), "description": _short(rng, 100)}
    return [_filled_up(rng, pool, *_AUCTION)]


def _bid(rng: np.random.Generator) -> list[Pool]:
    hot = len(HOT_CHANNELS)
    parts = letters(rng, rng.integers(3, 5, 3 * (hot + _CHANNELS)))
    paths = ["/".join(parts[place : place + 3]) for place in range(0, len(parts), 3)]
    urls = [f"https://www.nexmark.com/{path}/item.htm?query=1" for path in paths]
    for channel in np.flatnonzero(rng.random(_CHANNELS) < 0.9).tolist():
        # The 32 bits of the number in reverse, without the sign.
        number = int(f"{channel:032b}"[::-1], 2)
        urls[hot + channel] += f"&channel_id={min(number, (1 << 32) - number)}"
    # As many rows of hot channels as of others make them half.
    rows = [place % hot for place in range(_CHANNELS)] + list(range(hot, hot + _CHANNELS))
    names = [*HOT_CHANNELS, *(f"channel-{number}" for number in range(_CHANNELS))]
    channels = {"channel": [names[row] for row in rows], "url": [urls[row] for row in rows]}
    return [channels, _filled_up(rng, {}, *_BID)]


def _filled_up(rng: np.random.Generator, pool: Pool, mean: int, counted: int) -> Pool:
    """With ``extra``: letters that make a row as long as the mean, give or take a fifth of them."""
    lengths = np.full(_ROWS, counted)
    for texts in pool.values():
        lengths += [len(text) for text in texts]
    missing = np.maximum(mean - lengths, 0)
    fifth = np.rint(missing * 0.2).astype(np.int64)
    extra = missing - fifth + (rng.random(_ROWS) * 2 * fifth).astype(np.int64)
    return {**pool, "extra": letters(rng, extra)}


def _short(rng: np.random.Generator, below: int) -> list[str]:
    """Texts of at least three letters, and of fewer than ``below``."""
    return letters(rng, rng.integers(3, below, _ROWS))


def _any(rng: np.random.Generator, texts: str) -> list[str]:
    one_of = texts.split(",")
    return [one_of[place] for place in rng.integers(0, len(one_of), _ROWS)]


_MAKERS: Mapping[str, Callable[[np.random.Generator], list[Pool]]] = MappingProxyType(
    {"persons": _person, "auctions": _auction, "bids": _bid}
)
