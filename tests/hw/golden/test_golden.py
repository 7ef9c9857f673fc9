"""Every export is what it was, to the byte: nobody changes hardware without noticing."""

from __future__ import annotations

import pytest

from tests.hw.golden.exports import EXPORTS, GOLDEN, recorded
from tests.hw.kit import needs_yosys


def parameter(name: str):
    export = EXPORTS[name]
    marks = [pytest.mark.slow] if export.is_slow else []
    if export.needs_yosys:
        marks.append(needs_yosys)
    return pytest.param(name, id=name, marks=marks)


@pytest.mark.parametrize("name", [parameter(name) for name in EXPORTS])
def test_same_bytes(name, tmp_path):
    found, known = EXPORTS[name].hashes(tmp_path), recorded().get(name, {})
    changed = [file for file in found | known if found.get(file) != known.get(file)]
    assert not changed, (
        f"the export {name!r} is not what it was: {', '.join(changed)}. If that is meant, run "
        f"`python -m tests.hw.golden` (minutes; with {name!r} as argument for this one alone) and "
        f"say in the commit why {GOLDEN.name} changed"
    )


def test_nothing_is_recorded_that_is_not_tested():
    assert list(recorded()) == list(EXPORTS), "run `python -m tests.hw.golden`"
