"""The page of running joins, asked for without a browser."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from penstock.errors import UsageError
from penstock.host.device.base import Device
from penstock.host.join.stream import JoinStream
from penstock.query import compile_query
from tests.host.kit.streams import SCHEMA, batch_of
from tests.penstock.kit.devices import InterpretingCpu

QUERY = compile_query(
    "SELECT a.n AS a, b.n AS b FROM a JOIN b ON abs(a.t - b.t) <= 4 AND a.x = b.x",
    {"a": SCHEMA, "b": SCHEMA},
    time={"a": "t", "b": "t"},
)
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


def status(url: str, **headers: str) -> int:
    """Ask for a page; return the status of the answer."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=60
        ) as got:
            return got.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize(
    ("address", "token", "message"),
    [
        ("0.0.0.0", None, "0.0.0.0 without a token would show the page to everybody"),
        ("localhost", "short", "token has 5 characters, and needs at least 16"),
    ],
)
def test_wrong_places(device: Device, address: str, token: str | None, message: str) -> None:
    with (
        JoinStream(QUERY, {"a": SCHEMA, "b": SCHEMA}, device, disorder=2) as stream,
        pytest.raises(UsageError, match=message),
    ):
        stream.page(address=address, token=token)


def test_who_may_look(device: Device) -> None:
    with JoinStream(QUERY, {"a": SCHEMA, "b": SCHEMA}, device, disorder=2) as stream:
        stream.push("a", batch_of([(1, 10, 0)]))
        page = stream.page(token=TOKEN)
        plain = f"http://127.0.0.1:{page.port}/"
        assert page.url == f"{plain}?token={TOKEN}"
        assert TOKEN not in repr(page)
        assert [status(page.url), status(plain, Authorization=f"Bearer {TOKEN}")] == [200, 200]
        assert [status(plain), status(f"{plain}?token={TOKEN[:-1]}")] == [403, 403]
        with pytest.raises(UsageError, match="has another token"):
            stream.page(page.port, token=TOKEN + "0")
