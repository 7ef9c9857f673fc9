"""One run of a case, judged: right rows, an allowed refusal, or a finding."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import penstock
from tests.fuzz.compare import difference
from tests.fuzz.mode import Mode
from tests.fuzz.oracle import Expected, Oracle
from tests.fuzz.query import Case
from tests.fuzz.refusals import refusal
from tests.fuzz.run import HangError, as_streams, as_tables, in_order, no_hang


@dataclass(frozen=True)
class Outcome:
    """``kind`` is ok, refused, open (the docs do not say), or finding; ``what`` says what."""

    kind: str
    what: str = ""
    signature: str = ""
    """Equal for findings that look alike."""


def check(case: Case, oracle: Oracle, mode: Mode, device: Any) -> Outcome:
    """Runs a case and compares its rows with the plain evaluator's."""
    if mode.stream is not None:
        case = in_order(case, mode)
    expected = oracle.run(case)
    try:
        with no_hang():
            if mode.stream is None:
                names, rows = as_tables(case, device, mode)
            else:
                names, rows = as_streams(case, device, mode)
    except penstock.PenstockError as error:
        reason = refusal(error, case, expected)
        if reason is not None:
            return Outcome("refused", reason, type(error).__name__)
        return error_outcome(error)
    except (Exception, HangError) as error:
        return error_outcome(error)
    return judged(expected, names, rows)


def judged(expected: Expected, names: list[str], rows: Any) -> Outcome:
    if expected.failed:
        return Outcome("open", "a CAST does not fit in a row that may not be evaluated")
    wrong = difference(expected, names, rows)
    if wrong is None:
        return Outcome("ok")
    if expected.open_ties:
        return Outcome("open", "a tie of min_by or max_by that the docs leave open")
    return Outcome("finding", wrong, "wrong rows")


def error_outcome(error: BaseException) -> Outcome:
    name = type(error).__name__
    plain = re.sub(r"\d+", "N", re.sub(r"`[^`]*`", "`..`", str(error)))
    return Outcome("finding", f"{name}: {error}", f"{name}: {plain[:60]}")
