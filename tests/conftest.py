"""Says how much tests do, and keeps on one worker what shares an expensive fixture."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext

import pytest

from penstock.kept_code import PLAIN, PlainSteps
from tests.kit import effort
from tests.kit.explorer import Explored
from tests.kit.kept_tools import kept_tools
from tests.kit.object_server import BUCKET, CREDENTIALS, served_objects

#: Folders whose tests take longest. They begin first, or one worker would wait for another's end.
_LONG = ("tests/spark_bridge/", "tests/hw/", "tests/examples/", "tests/sim/")


def pytest_configure(config: pytest.Config) -> None:
    effort.set_full("not slow" not in config.option.markexpr)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are imported, nor later among what was imported.

    That takes a fifth of the import, and then a third of a second each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in its own
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group tests for ``--dist loadgroup``: a fixture of a session or module is made once.

    Without groups each worker would start a Spark and compile the kernels of each module. Workers
    take groups by their number of tests, and groups of as many in the order of collection.
    """
    if not config.pluginmanager.hasplugin("xdist"):
        return
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))
    for item in items:
        if group := _group(item):
            item.add_marker(pytest.mark.xdist_group(group))


def _group(item: pytest.Item) -> str | None:
    if not isinstance(item, pytest.Function):
        return None
    definitions = item._fixtureinfo.name2fixturedefs
    if "spark" in definitions:
        return "spark"
    module = item.nodeid.partition("::")[0]
    if "subject" in definitions and hasattr(item, "callspec"):  # a device under test
        return f"{module} {item.callspec.params.get('subject')}"
    if any(one.scope == "module" for found in definitions.values() for one in found):
        return module
    return None


#: Name of the property under which a test says what a model checker has seen.
_STATES = "states explored"
#: Properties that are shown below the results.
_SHOWN = (_STATES, "not run in documents")


@pytest.fixture
def show_states(record_property: Callable[[str, object], None]) -> Callable[[str, Explored], None]:
    """Print what was explored below the results, from whichever process runs the test."""
    return lambda name, explored: record_property(_STATES, f"{name}: {explored}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = terminalreporter.getreports("passed")
    for shown in _SHOWN:
        properties = [one for report in passed for one in report.user_properties]
        lines = sorted(text for name, text in properties if name == shown)
        if lines:
            terminalreporter.section(shown)
            for line in lines:
                terminalreporter.line(line)


@pytest.fixture(scope="session", autouse=True)
def _tools() -> Iterator[None]:
    """In the short run, Yosys and the prover run on what they have not seen yet only."""
    has_hardware = importlib.util.find_spec("amaranth") is not None
    short = effort.effort(full=False, short=True)
    with kept_tools() if short and has_hardware else nullcontext():
        yield


@pytest.fixture(scope="session", autouse=True)
def _machine_code() -> None:
    """Small joins load machine code, too, or few tests would run any."""
    PLAIN.pairs = PLAIN.rows = -1


@pytest.fixture
def plain_steps(_machine_code: None, monkeypatch: pytest.MonkeyPatch) -> PlainSteps:
    """Steps by NumPy as users have them, none of them taken."""
    fresh = PlainSteps()
    for name in ("pairs", "rows", "_taken"):
        monkeypatch.setattr(PLAIN, name, getattr(fresh, name))
    return PLAIN


@pytest.fixture
def fresh_tools(_tools: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that compare two answers of a tool: it is asked twice."""
    monkeypatch.setattr("tests.kit.kept_tools.Kept.answer", lambda self, run, command, at: run())


@pytest.fixture(scope="module")
def object_server() -> Iterator[str]:
    """Options of S3 URIs that lead to a server, which has the bucket of ``object_location``."""
    pytest.importorskip("moto", reason="needs pip install 'penstock[dev]'")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with served_objects() as options:
            yield options


@pytest.fixture
def object_location(object_server: str, request: pytest.FixtureRequest) -> str:
    """An empty place in an object store."""
    return f"s3://{BUCKET}/{request.node.name}?{object_server}"
