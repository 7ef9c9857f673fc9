"""The operations of the device contract (docs/inside/device-contract.md), by name."""

from __future__ import annotations

from enum import Enum


class Operator(Enum):
    """Operation of a device; each kernel does one."""

    #: Range joins, for every query: the host finds the range that each row may meet.
    RANGE = "range"
    #: The window-join operator, for ROWS windows and band form: rows enter in order of arrival, and
    #: the device keeps the windows.
    WINDOW = "window"
