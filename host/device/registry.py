"""Devices by name, found through the entry points of installed packages.

A package offers a device by an entry point in the group ``penstock.devices``; its value is a class
derived from :class:`penstock.host.device.base.Device`.
"""

from __future__ import annotations

from functools import cache
from inspect import Parameter, signature
from typing import Any
from urllib.parse import parse_qsl

from penstock.errors import DeviceError, installing
from penstock.providers import load_provider, providers
from penstock.uses import UnusedError

from .base import Device

GROUP = "penstock.devices"

#: Extra of this package with the imports of a device.
_EXTRAS = {"amaranth": "rtl", "rtl": "rtl", "fjoin": "rtl", "board": "board"}


def device_names() -> list[str]:
    """Names of the devices that are installed, sorted; their packages are not imported."""
    return sorted(providers(GROUP))


def _check_known(name: str) -> None:
    if name not in providers(GROUP):
        raise DeviceError(
            f"there is no device named {name!r}; choose one of {', '.join(device_names())}"
        )


def parse_device(text: str) -> tuple[str, dict[str, Any]]:
    """Name and options of a device, from ``name`` or ``name?option=value&option=value``.

    >>> parse_device("board?address=192.168.2.99&timeout_s=5")
    ('board', {'address': '192.168.2.99', 'timeout_s': 5})

    Raises
    ------
    DeviceError
        There is no such device.
    """
    name, _, query = text.strip().partition("?")
    _check_known(name)
    pairs = parse_qsl(query, keep_blank_values=True)
    return name, {k: int(v) if v.isdecimal() else v for k, v in pairs}


def open_device(name: str, **options: Any) -> Device:
    """Make a device.

    Parameters
    ----------
    name : str
        One of :func:`device_names`.
    **options
        Arguments of the device's class.

    Raises
    ------
    DeviceError
        No device has that name, or it cannot be opened with the options.
    UnusedError
        It does not take one of the options.
    MissingToolError
        The device needs a package that is not installed; the message names the extra.
    """
    _check_known(name)
    remedy = installing(_EXTRAS[name]) if name in _EXTRAS else "install it"
    device_class = load_provider(GROUP, name, f"device {name}", remedy)
    takes = _options_of(device_class)
    for option in options:
        if takes is not None and option not in takes:
            shown = ", ".join(takes) or "no options"
            raise UnusedError(option, f"the device {name}", f"it takes {shown}")
    try:
        return device_class(**options)
    except TypeError as cause:
        option_names = ", ".join(sorted(options)) or "none"
        raise DeviceError(
            f"device {name} cannot be opened with the options given ({option_names}): {cause}; see "
            f"{device_class.__name__} for what it takes"
        ) from cause


@cache
def _options_of(device_class: type[Device]) -> list[str] | None:
    """Names of the options of a class, and of base classes that it passes them to; None: any."""
    names: dict[str, None] = {}
    for one in device_class.__mro__:
        if "__init__" not in vars(one) or one is object:
            continue
        _, *takes = signature(one.__init__).parameters.values()
        named = (p.name for p in takes if p.kind is not Parameter.VAR_KEYWORD)
        names |= dict.fromkeys(named)
        if all(p.kind is not Parameter.VAR_KEYWORD for p in takes):
            return [*names]
    return None
