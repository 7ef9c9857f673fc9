"""Errors of another process name it as its caller does."""

from __future__ import annotations

from penstock.errors import DataError, DeviceError
from penstock.host.wire.errors import error_from, error_header


def test_an_error_says_whose_it_is() -> None:
    known = error_from(error_header(DataError("t exceeds 64 bits")), "worker 0")
    assert isinstance(known, DataError)
    assert (str(known), known.__notes__) == ("t exceeds 64 bits", ["from worker 0"])
    other = error_from(error_header(ValueError("a value of the server")), "the server at x:1")
    assert isinstance(other, DeviceError)
    assert str(other).startswith("the server at x:1 failed: an error that it did not expect, inc")
    assert "a value" not in str(other)
