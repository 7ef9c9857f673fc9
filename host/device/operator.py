"""The operations of the device contract (docs/device-contract.md), by name."""

from __future__ import annotations

from enum import Enum


class Operator(Enum):
    """An operation of a device; a kernel does one of them."""

    #: Range joins: the host finds what each row may meet. Every query.
    RANGE = "range"
    #: The window-join operator: rows enter in order of arrival, and the device keeps the windows.
    #: ROWS windows and band form.
    WINDOW = "window"
