"""Classes of installed packages, found by entry points and imported when they are used.

The groups are ``penstock.devices``, ``penstock.relations``, ``penstock.networks`` and
``penstock.spark_sources``.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from .errors import MissingToolError


@cache  # reading the metadata of all installed packages takes milliseconds
def providers(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; their packages are not imported."""
    return {entry.name: entry for entry in entry_points(group=group)}


def load_provider(group: str, name: str, shown: str, remedy: str = "install it") -> Any:
    """Import the class that an entry point names.

    Parameters
    ----------
    group, name : str
        Of the entry point.
    shown : str
        Name of the class in messages: "device cpu".
    remedy : str
        How a package that it needs is installed.

    Raises
    ------
    MissingToolError
        No package has the entry point, or a package that the class needs is not installed.
    """
    entry = providers(group).get(name)
    if entry is None:
        raise MissingToolError(
            f"the installed penstock is of an earlier version, without {shown}; install it again "
            "with pip"
        )
    try:
        return entry.load()
    except ModuleNotFoundError as cause:
        missing = cause.name or str(cause)
        if missing.partition(".")[0] == "penstock":
            raise MissingToolError(
                f"{shown} is registered, but this installation lacks its module {missing}; "
                "install penstock again"
            ) from cause
        raise MissingToolError(
            f"{shown} needs the package {missing}, which is not installed; {remedy}"
        ) from cause
