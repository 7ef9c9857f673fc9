"""The page of running joins, in a browser and without one."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

pytest.importorskip("bokeh", reason="needs pip install '.[page]'")

import penstock
from penstock.errors import MissingToolError, UsageError
from penstock.host.device.base import Device
from penstock.host.execute.trace import Trace
from penstock.host.join.stream import JoinStream
from penstock.host.metrics.exporter import ReportCollector, values_by_query
from penstock.host.metrics.report import Report
from penstock.host.page import page as pages
from penstock.host.page.history import KEPT, History
from penstock.host.page.page import show_reports
from penstock.host.page.server import PageServer
from penstock.query import compile_query
from tests.host.kit.streams import SCHEMA, batch_of
from tests.penstock.kit.devices import InterpretingCpu

#: Longest wait for the page, in seconds.
WAIT_S = 60
QUERY = compile_query(
    "SELECT a.n AS a, b.n AS b FROM a JOIN b ON abs(a.t - b.t) <= 4 AND a.x = b.x",
    {"a": SCHEMA, "b": SCHEMA},
    time={"a": "t", "b": "t"},
)
TOKEN = "0123456789 abc&<déf"
#: Whatever tags with an identifier, and text, the page has, in shadow roots, too.
LOOK = """
const data = {}, texts = []
const walk = node => {
  node.querySelectorAll("data").forEach(one => { data[one.id] = one.value })
  node.querySelectorAll(".bk-clearfix").forEach(one => texts.push(one.innerText))
  node.querySelectorAll("*").forEach(one => one.shadowRoot && walk(one.shadowRoot))
}
walk(document)
return [data, texts.join("\\n"), performance.getEntriesByType("resource").map(one => one.name)]
"""


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a screen."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    driver = shutil.which("chromedriver")
    if driver is None:
        pytest.skip("needs Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    with webdriver.Chrome(options, webdriver.ChromeService(driver)) as opened:
        yield opened


def until(condition: Callable[[], Any]) -> Any:
    """Wait for a condition; return its value."""
    end = time.monotonic() + WAIT_S
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return value


def numbers(report: Report) -> dict[str, float]:
    """Numbers of a report by metric and label, as the page names them."""
    values = values_by_query(ReportCollector(lambda: report).collect())[""]
    return {f"{m} {k}".strip(): n for m, by_label in values.items() for k, n in by_label.items()}


def shown(browser: Any) -> dict[str, float]:
    return {name: float(text) for name, text in browser.execute_script(LOOK)[0].items()}


def answer(port: int, path: str = "/", **headers: str | bytes) -> int:
    """Ask the page for something; return the status of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def is_gone(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def opened(device: Device) -> JoinStream:
    """Open a join that has met some rows, one of them late."""
    stream = JoinStream(QUERY, {"a": SCHEMA, "b": SCHEMA}, device, disorder=2)
    stream.push("a", batch_of([(1, 10, 0), (2, 20, 0), (3, 5, 0)]))
    stream.push("b", batch_of([(1, 11, 0), (2, 21, 0)]))
    stream.flush()
    return stream


def test_numbers_are_those_of_the_reports(device: Device, browser: Any) -> None:
    schema = pa.schema([("t", pa.int64()), ("k", pa.int64())])
    groups = penstock.stream(
        "SELECT v.k, count(*) AS n FROM v GROUP BY v.k, v.t", {"v": schema}, time={"v": "t"}
    )
    with groups, opened(device) as stream:
        page = stream.page(name="<b>orders</b> & gps $$x$$")
        assert groups.page().port == page.port
        browser.get(f"{page.url}?join={quote('<b>orders</b> & gps $$x$$')}")
        until(lambda: shown(browser) == numbers(stream.report()))
        assert shown(browser)["late_rows_total a"] == 1
        _, text, resources = browser.execute_script(LOOK)
        assert "<b>orders</b> & gps $$x$$" in text
        assert "of the rows of a came too late" in text
        assert all(one.startswith(page.place) for one in resources)  # offline, too
        stream.push("b", batch_of([(4, 22, 0)]))
        stream.flush()
        until(lambda: shown(browser) == numbers(stream.report()))
        charts = "return Bokeh.documents[0].all_models.size"
        assert browser.execute_script(charts) > 100
        tracks = "return Bokeh.documents[0].get_model_by_name('lanes').y_range.factors.join()"
        assert " device,cpu-" in browser.execute_script(tracks)
        groups.push("v", pa.table({"t": [1, 2, 3], "k": [7, 7, 8]}))
        groups.flush()
        browser.get(f"{page.url}?join=v")
        until(lambda: shown(browser) == numbers(groups.report()))
        groups.close()
        until(lambda: "v (ended)" in browser.execute_script(LOOK)[1])
        assert not is_gone(page.port)
        last = stream.close()
        assert last.num_rows == 3
        until(lambda: "gps $$x$$ (ended)" in browser.execute_script(LOOK)[1])
    until(lambda: is_gone(page.port))
    page.close()
    assert not stream.trace.on


def test_who_may_look(device: Device, browser: Any) -> None:
    with opened(device) as stream:
        page = stream.page(token=TOKEN)
        assert TOKEN not in repr(page) + page.place
        quoted = page.url.removeprefix(page.place)
        bearer = f"Bearer {TOKEN}".encode()
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        upgrade["Sec-WebSocket-Key"] = "MDEyMzQ1Njc4OWFiY2RlZg=="
        for path, more in (("/", {}), ("/ws", upgrade)):
            assert answer(page.port, path, **more) == 403
            assert answer(page.port, f"{path}?token=", **more) == 403
            assert answer(page.port, f"{path}{quoted[:-1]}", **more) == 403
            assert answer(page.port, f"{path}{quoted}", **more) in (200, 101)
            assert answer(page.port, path, Authorization=bearer, **more) in (
                200,
                101,
            )
        with pytest.raises(urllib.error.HTTPError, match="Wrong token, or none"):
            urllib.request.urlopen(page.place, timeout=WAIT_S)
        browser.get(page.url)
        until(lambda: shown(browser) == numbers(stream.report()))
        with pytest.raises(UsageError, match="has another token, or none; give the same"):
            stream.page(page.port)
        open_page = stream.page()  # beside the other one
        assert open_page.port != page.port
        elsewhere = stream.page(address="127.0.0.2")
        with urllib.request.urlopen(elsewhere.url, timeout=WAIT_S) as got:
            assert got.status == 200
        # A name of somebody else that leads here, and a page of somebody else.
        assert answer(open_page.port, Host=f"localhost:{open_page.port}") == 200
        assert answer(open_page.port, Host="evil.example") == 403
        assert answer(open_page.port, "/ws", Origin="http://evil.example", **upgrade) == 403
        with (
            socket.create_server(("127.0.0.2", 0)) as taken,
            pytest.raises(
                UsageError, match=r"cannot serve the page on 127\.0\.0\.2:\d+: .*; choose"
            ),
        ):
            stream.page(taken.getsockname()[1], address="127.0.0.2")
        stream.close()
    until(lambda: is_gone(page.port) and is_gone(open_page.port))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"address": "0.0.0.0"}, "0.0.0.0 without a token would show the page to everybody"),
        ({"token": "short"}, "the page's token has 5 characters, and needs at least 16"),
        ({"port": 70_000}, "port must be 0 to 65535"),
    ],
)
def test_wrong_options(device: Device, options: dict[str, Any], message: str) -> None:
    with opened(device) as stream:
        with pytest.raises(UsageError, match=message):
            stream.page(**options)
        stream.close()


def test_the_extra_is_named(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    with opened(device) as stream:
        with pytest.raises(MissingToolError, match=r"run pip install '\.\[page\]'"):
            stream.page()
        stream.close()


def test_a_stream_that_nobody_has_leaves_its_page(device: Device) -> None:
    with opened(device) as stream:
        report = stream.report()
        stream.close()
    looks = iter([report, report])

    def reports() -> Report:
        try:
            return next(looks)
        except StopIteration:
            raise ReferenceError("a proxy of what is gone") from None

    page = show_reports(reports)
    until(lambda: is_gone(page.port))


def test_a_killed_page_disturbs_nobody(device: Device) -> None:
    with opened(device) as stream:
        page = stream.page()
        page._server._process.kill()
        until(lambda: is_gone(page.port))
        time.sleep(1.2)  # a further look
        assert stream.close().num_rows == 2
        page.close()


def test_a_page_that_hangs_disturbs_nobody(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_HANGS_S", 0.5)
    with opened(device) as stream:
        page = stream.page(name="n" * 100_000)  # a look fills the pipe
        other = stream.page()
        os.kill(page._server._process.pid, signal.SIGSTOP)
        until(lambda: not page._server.is_alive)
        page.close()
        other.close()
        assert stream.close().num_rows == 2


def test_a_page_that_does_not_begin(
    device: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o700)
    with opened(device) as stream:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", str(script))
            patched.setattr(pages, "_PATIENCE_S", 0.5)
            with pytest.raises(UsageError, match="ended by itself, or hangs; choose another port"):
                stream.page()
        stream.close()
        with pytest.raises(UsageError, match="the query is closed, so no page shows it"):
            stream.page()


def test_pages_one_after_another(device: Device) -> None:
    with opened(device) as stream:
        first = stream.page(token="ends with space ")
        assert answer(first.port, "/?" + first.url.partition("?")[2]) == 200
        # A fork of this process would keep the pipe open in the same way.
        pipe = first._server._process.stdin
        assert pipe is not None
        kept = os.dup(pipe.fileno())
        first.close()
        second = stream.page(first.port)  # at once
        assert second.port == first.port
        until(lambda: not first._server.is_alive)
        os.close(kept)
        second._server._process.kill()
        until(lambda: not second._server.is_alive)
        third = stream.page()  # the other one is dead, and takes no more
        assert answer(third.port) == 200
        stream.close()
    until(lambda: is_gone(third.port))


def test_a_fork_has_no_page() -> None:
    servers = list(pages._servers)
    try:
        pages._servers.append(object())  # type: ignore[arg-type]
        with pages._servers_lock:
            pages._forget()
            assert pages._servers == []
            assert not pages._servers_lock.locked()
    finally:
        pages._servers[:] = servers


def test_ended_joins_are_bounded() -> None:
    server = PageServer("127.0.0.1", 0, None)
    figures = {"values": {}, "spans": (), "texts": {}, "findings": (), "unit": ""}
    for k in range(100):
        server.hear({"at": k, "joins": {str(k): figures, "runs": figures}})
        server.hear({"at": k, "ended": [str(k)]})
    assert list(server.joins) == ["runs", *map(str, range(80, 100))]


def test_reports_by_name_and_their_end(device: Device) -> None:
    with opened(device) as stream:
        sent: list[Any] = []
        page = show_reports(lambda: {"one": stream.report(), "two": stream.report()})
        page._server.send = lambda message: sent.append(json.loads(json.dumps(message)))
        until(lambda: sent)
        page.close()
        assert list(sent[0]["joins"]) == ["one", "two"]
        assert sent[-2]["ended"] == ["one", "two"]
        stream.close()


def test_history_is_bounded() -> None:
    history = History()
    for k in range(KEPT + 5):
        values = {"rows_total": {"": k * 10.0}}
        history.hear(k, {"values": values, "spans": (), "texts": {}, "findings": (), "unit": ""})
    steps = list(history.steps(0))
    assert len(steps) == KEPT - 1
    assert steps[-1].rates("rows_total") == {"": 10.0}
    assert [step.ended for step in history.steps(KEPT + 3)] == [KEPT + 3, KEPT + 4]
    assert not list(history.steps(KEPT + 5))
    assert history.over(60).rates("rows_total") == {"": 10.0}
    assert history.over(60).ended - history.over(60).began == 60


def test_samples_of_traces_are_bounded() -> None:
    trace, whole = Trace(), Trace(True)
    for one in (trace, whole):
        one.add("lane", "before", 0, 1)
        one.sample(3)
        for k in range(5):
            one.add("lane", "task", k, k + 1)
    assert not trace.on  # until the next sample
    assert [span.began for span in trace.sample(2)] == [0, 1, 2]
    assert [span.began for span in whole.sample(2)] == [3, 4]
    for one in (trace, whole):
        one.add("lane", "last", 9, 10)
        assert [span.name for span in one.sample(2)] == ["last"]
        one.end_samples()
        one.add("lane", "task", 10, 11)
    assert trace.spans == []
    assert len(whole.spans) == 8
