"""Options of a data source, which Spark gives as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TypeVar

from penstock.errors import UsageError
from penstock.spans import parsed_span
from penstock.types import UNIT_NS

T = TypeVar("T")


class Options:
    """Options of a data source by name, read and checked.

    Parameters
    ----------
    values : mapping of str to str
        Keys in upper or lower case.
    source : str
        Name of the data source, for messages.
    """

    def __init__(self, values: Mapping[str, str], source: str) -> None:
        self._values = {key.lower(): value for key, value in values.items()}
        self._source = source

    def text(self, key: str) -> str | None:
        return self._values.get(key.lower())

    def required(self, key: str, remedy: str) -> str:
        """
        Raises
        ------
        UsageError
            It was not given.
        """
        text = self.text(key)
        if not text:
            raise UsageError(f"{self._source} needs the option {key}: {remedy}")
        return text

    def read(self, key: str, reader: Callable[[str], T], default: T) -> T:
        """Read an option by a reader of :mod:`..text_values`.

        Raises
        ------
        UsageError
        """
        text = self.text(key)
        if text is None:
            return default
        try:
            return reader(text)
        except ValueError as error:
            raise UsageError(f"option {key} of {self._source} is {error}, not {text!r}") from None

    def ticks(self, key: str, unit: str | None) -> int:
        """Read a span in a time column's unit; 0 if the option is missing.

        Parameters
        ----------
        key : str
        unit : str or None
            Of the column; None for plain integers.
        """
        text = self.text(key)
        if text is None:
            return 0
        try:
            span = parsed_span(text)
        except ValueError as error:
            raise UsageError(f"option {key} of {self._source} is {error}") from None
        if not isinstance(span, timedelta):
            return span
        if not unit:
            raise UsageError(
                f"option {key} of {self._source} is {text!r}, but the time is a plain integer; "
                "give a plain number, or declare the unit: option time = COLUMN:s (ms, us)"
            )
        return span // timedelta(microseconds=1) * 1000 // UNIT_NS[unit]
