"""Says how much tests do, and keeps on one worker what shares an expensive fixture."""

from __future__ import annotations

import pytest

from tests.kit import effort


def pytest_configure(config: pytest.Config) -> None:
    effort.set_full("not slow" not in config.option.markexpr)


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in its own
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group tests for ``--dist loadgroup``: a fixture of a session or module is made once.

    Without groups each worker would start a Spark and compile the kernels of each module.
    """
    if not config.pluginmanager.hasplugin("xdist"):
        return
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
