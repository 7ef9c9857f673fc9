"""Checks of build-time knobs, before any hardware exists."""

from __future__ import annotations


def check_integer(name: str, value: object) -> int:
    """The value, if it is an integer.

    Raises
    ------
    TypeError
        It is something else; a bool is something else.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    return value


def check_range(name: str, value: object, low: int, high: int) -> None:
    """Refuse what is not an integer from ``low`` to ``high``.

    Raises
    ------
    TypeError
        The value is not an integer.
    ValueError
        It is out of range.
    """
    if not low <= check_integer(name, value) <= high:
        raise ValueError(f"{name} must be {low} to {high}, not {value!r}")


def check_power(name: str, value: int) -> None:
    """Refuse an integer that is not a power of two.

    Raises
    ------
    ValueError
        It is not.
    """
    if value & (value - 1):
        raise ValueError(f"{name} must be a power of two, not {value!r}")


def check_power_range(name: str, value: object, low: int, high: int) -> None:
    """Refuse what is not a power of two from ``low`` to ``high``.

    Raises
    ------
    TypeError
        The value is not an integer.
    ValueError
        It is out of range or no power of two.
    """
    number = check_integer(name, value)
    if not low <= number <= high or number & (number - 1):
        raise ValueError(f"{name} must be a power of two, {low} to {high}, not {value!r}")
