"""Options of a data source, which Spark gives as text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from penstock.errors import UsageError
from penstock.spans import parsed_span
from penstock.types import UNIT_NS


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

    def whole(self, key: str, default: int | None, least: int = 1) -> int | None:
        """Read a whole number, not below ``least``."""
        text = self.text(key)
        if text is None:
            return default
        if not text.strip().isdecimal() or int(text) < least:
            raise UsageError(
                f"option {key} of {self._source} is a whole number, {least} or more, not {text!r}"
            )
        return int(text)

    def flag(self, key: str, default: bool) -> bool:
        """Read ``true`` or ``false``."""
        text = (self.text(key) or str(default)).strip().lower()
        if text not in ("true", "false"):
            raise UsageError(f"option {key} of {self._source} is true or false, not {text!r}")
        return text == "true"

    def positive(self, key: str) -> float | None:
        """Read a number above 0."""
        text = self.text(key)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value < float("inf"):
            raise UsageError(f"option {key} of {self._source} is a number above 0, not {text!r}")
        return value

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
