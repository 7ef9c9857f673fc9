"""The message with which a server begins a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ....device.fields import Header, MalformedError, count_field, field

#: Seconds of a lease, at least and at most.
_LEASES = (1e-3, 86_400.0)
#: Most lanes and waiting tasks that a server may claim.
_MOST = 1 << 16
#: Most devices that a server may claim.
_MOST_DEVICES = 1024
#: Widths of a code in bits.
_WIDTHS = range(2, 65)


@dataclass(frozen=True)
class Welcome:
    """A server's welcome.

    Parameters
    ----------
    session : str
        A secret that names the session.
    version : str
        Penstock's version on the server.
    device : str
    lanes : int
    key_widths : tuple of int
        Bits, ascending.
    narrow_widths : tuple of int
        Widths of units for programs of wider codes; bits, ascending.
    task_evaluations : int or None
    depth : int
        Tasks of one client that may wait.
    lease_s : float
        Seconds without a sign of life after which the session ends.
    devices : list of Header
        Name, lanes, key_widths and description of each.
    """

    session: str
    version: str
    device: str
    lanes: int
    key_widths: tuple[int, ...]
    narrow_widths: tuple[int, ...]
    task_evaluations: int | None
    depth: int
    lease_s: float
    devices: list[Header]

    def header(self) -> Header:
        """The welcome as a header."""
        return asdict(self)

    @classmethod
    def parsed(cls, header: Mapping[str, Any]) -> Welcome:
        """Parse a header.

        Raises
        ------
        MalformedError
        """
        lease_s = header.get("lease_s")
        if isinstance(lease_s, bool) or not isinstance(lease_s, int | float):
            raise MalformedError(f"a message needs lease_s as a number, and has {lease_s!r:.80}")
        if not _LEASES[0] <= lease_s <= _LEASES[1]:
            raise MalformedError(
                f"a lease has {_LEASES[0]:g} to {_LEASES[1]:g} s, not {lease_s!r:.80}"
            )
        evaluations = None
        if header.get("task_evaluations") is not None:
            evaluations = _above_0(header, "task_evaluations", (1 << 63) - 1)
        devices = field(header, "devices", list)
        if len(devices) > _MOST_DEVICES:
            raise MalformedError(f"a server says that it has {len(devices)} devices")
        return cls(
            _text(header, "session"),
            _text(header, "version"),
            _text(header, "device"),
            _above_0(header, "lanes", _MOST),
            _widths(header, "key_widths"),
            _widths(header, "narrow_widths"),
            evaluations,
            _above_0(header, "depth", _MOST),
            float(lease_s),
            [_device(one) for one in devices],
        )


def _device(header: Any) -> Header:
    if not isinstance(header, dict):
        raise MalformedError(f"a device is given as {header!r:.80}")
    return {
        "name": _text(header, "name"),
        "lanes": _above_0(header, "lanes", _MOST),
        "key_widths": list(_widths(header, "key_widths")),
        "what": _text(header, "what"),
    }


def _text(header: Mapping[str, Any], name: str) -> str:
    text = field(header, name, str)
    # It may be shown in a terminal, where control characters would act.
    if len(text) > 1000 or not text.isprintable():
        raise MalformedError(f"a message has {name} {text!r:.80}, which is no line of text")
    return text


def _above_0(header: Mapping[str, Any], name: str, most: int) -> int:
    if not (value := count_field(header, name, most)):
        raise MalformedError(f"a message has {name} 0, which must be above")
    return value


def _widths(header: Mapping[str, Any], name: str) -> tuple[int, ...]:
    widths = field(header, name, list)
    whole = all(type(width) is int and width in _WIDTHS for width in widths)
    if not whole or len(widths) > len(_WIDTHS) or sorted(set(widths)) != widths:
        raise MalformedError(f"a message has {name} {widths!r:.80}, which are no widths")
    return tuple(widths)
