"""Tables on a terminal: all of each value is there, however narrow it is."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from rich.console import Console

from penstock.cli import row_output, terminal
from penstock.words import many, per_second, span

ROWS = [("simulated, a slice", "111,586,196", "3,980,335,097,333"), ("cpu", "1", "22.91 s")]


def shown(width: int, grid) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(grid)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 44, 34, 20, 12])
def test_numbers_are_whole_where_there_is_room_and_never_cut(width):
    text = shown(width, terminal.table("where", "rows", "pairs", rows=ROWS, right=terminal.NUMBERS))
    if width >= 40:
        assert "111,586,196" in text
        assert "3,980,335,097,333" in text
    digits = sorted(one for one in text if one.isdigit())
    assert digits == sorted(one for row in ROWS for cell in row for one in cell if one.isdigit())


def test_rows_wider_than_the_terminal_are_lines_of_names_and_values(monkeypatch):
    rows = pa.table({f"column {n}": [f"[red]value {n}[/]"] * 2 for n in range(9)})
    for width, stacked in ((80, True), (1 << 12, False)):
        out = io.StringIO()
        monkeypatch.setattr(row_output, "results", Console(width=width, file=out))
        monkeypatch.setattr(terminal, "results", row_output.results)
        row_output.show(rows, 3)
        text = out.getvalue()
        assert text.count("[red]value 8[/]") == 2
        assert ("row 2" in text) is stacked
        assert "... 1 more row; write all" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (40, "40 s"), (90, "1.5 min"), (0.25, "250 ms"), (2e-9, "2 ns"), (172_800, "2 d")],
)
def test_spans(seconds, text):
    assert span(seconds) == text
    assert span(-seconds) == ("0 s" if not seconds else f"-{text}")


def test_counts_and_rates():
    assert [many(n, "row") for n in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]
    assert many(2, "pass") == "2 passes"
    rates = [per_second(n, "rows") for n in (0.0, 3.94, 12.4, 999_999.7, 1.2e6, 3.5e9)]
    assert rates == [
        "0 rows/s",
        "3.9 rows/s",
        "12 rows/s",
        "1,000,000 rows/s",
        "1.20 M rows/s",
        "3.50 G rows/s",
    ]
