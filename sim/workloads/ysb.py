"""Views of advertisements per key: the Yahoo streaming benchmark as the Slash paper has it.

The paper (§8.1.2) has a record of 78 bytes, a key that is uniform of ten million, and counts per
key in tumbling windows of "10m". Decided: ten minutes, as printed, where the original has 10 s.
What its owner defines is :mod:`.yahoo`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .draws import Zipf
from .slots import Slot, steady_times
from .tumbling import TumblingGroups
from .workload import TIMESTAMP_MS, Columns, check
from .yahoo import EVENT_TYPES, FORMATS

#: 78 bytes. A type is its number and its name, of nine bytes together.
ADS = pa.schema(
    [
        ("ad", pa.int64()),
        ("t", TIMESTAMP_MS),
        ("user", pa.binary(16)),
        ("page", pa.binary(16)),
        ("format", pa.int8()),
        ("format_name", pa.binary(8)),
        ("kind", pa.int8()),
        ("kind_name", pa.binary(8)),
        ("ip", pa.int32()),
        ("pad", pa.int64()),
    ]
)

_NAME_BYTES, _UUID_BYTES = 8, 16
#: 1.2.3.4, which all events of the original come from.
_IP = 0x01020304


@dataclass(frozen=True, kw_only=True)
class YSB(TumblingGroups):
    """Stream ``ads``.

    Columns: ``ad`` is the key; ``t`` is the event time in ms, at even distances; ``user`` and
    ``page`` are random bytes; ``format`` and ``kind`` are numbers of :data:`~.yahoo.FORMATS` and
    :data:`~.yahoo.EVENT_TYPES`, uniform, so that a third are views, and their names, cut to eight
    bytes, follow them.

    Parameters
    ----------
    ads : int
        Keys.
    skew : float
        Zipf exponent of the keys; 0 is even. The paper's figure 10d has 0.2 to 2.
    """

    STREAM, SCHEMA = "ads", ADS
    KEY, AGGREGATE, CONDITION = "ad", "count(*) AS n", "kind = 0"

    ads: int = 10_000_000
    skew: float = 0.0
    window_s: int = 600

    def __post_init__(self) -> None:
        super().__post_init__()
        check("ads", self.ads, low=1, high=1 << 31)
        check("skew", self.skew, low=0, high=10)

    def _fill(self, stream: str, slot: Slot) -> Columns:
        rng, ts = slot.rng, steady_times(slot, self.rate)
        count = len(ts)
        kind = rng.integers(0, len(EVENT_TYPES), count, dtype=np.int8)
        form = rng.integers(0, len(FORMATS), count, dtype=np.int8)
        return {
            "ts": ts,
            "ad": self._keys.keys(rng, count),
            "user": _uuids(rng, count),
            "page": _uuids(rng, count),
            "format": form,
            "format_name": _names(FORMATS)[form],
            "kind": kind,
            "kind_name": _names(EVENT_TYPES)[kind],
            "ip": np.full(count, _IP, np.int32),
            "pad": np.zeros(count, np.int64),
        }

    @cached_property
    def _keys(self) -> Zipf:
        return Zipf(self.ads, self.skew)


def _uuids(rng: np.random.Generator, count: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(rng.bytes(count * _UUID_BYTES), np.uint8).reshape(count, _UUID_BYTES)


def _names(names: tuple[str, ...]) -> npt.NDArray[np.uint8]:
    """Bytes of each name, cut or filled up with zeros."""
    padded = b"".join(name.encode()[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0") for name in names)
    return np.frombuffer(padded, np.uint8).reshape(len(names), _NAME_BYTES)
